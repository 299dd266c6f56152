"""The values that expressions had in eager."""
