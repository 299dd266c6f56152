"""From breaks to causes: one reason at one expression, however many events it has."""
