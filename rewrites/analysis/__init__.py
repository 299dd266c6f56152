"""What is known about an expression: from a run in eager, or from its source."""
