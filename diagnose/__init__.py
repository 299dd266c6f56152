"""From what the compiler told to what a person must know: causes, costs, reports."""
