"""The rules, one a file, found by listing this package."""
