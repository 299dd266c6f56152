"""What processes tell one another."""
