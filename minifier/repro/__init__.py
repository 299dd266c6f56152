"""The script that shows a failure, its check in a fresh interpreter, and the text of an issue."""
