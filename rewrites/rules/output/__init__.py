"""What a model prints, logs and warns of."""
