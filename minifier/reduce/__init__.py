"""The reducers, one a file, each written against `Problem`."""
