"""Elements that a boolean mask selects: their reads, their uses, and their form at full shape."""
