"""What hides behind a break."""
