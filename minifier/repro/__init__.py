"""The script that shows a failure, its check in a fresh interpreter, and the issue's text."""
