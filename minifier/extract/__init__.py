"""A live program as source text: objects, constructors, definitions."""
