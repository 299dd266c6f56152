"""From what the compiler recorded to what a person needs: causes, costs and reports."""
