"""Values that a boolean mask selects: where they are read, where they go, and how to keep them
at their full shape."""
