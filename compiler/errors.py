"""The exception for bad input, and the one of a backend that does not have an operator."""


class FullgraphError(Exception):
    """Bad input; one sentence says what was wrong, where, and what to do next.

    The command line prints the sentence and exits with code 2. `partial` holds the results so far
    (an `Explanation`), or None.
    """

    def __init__(self, message: str, *, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


class UnsupportedOperator(FullgraphError):
    """A graph has an operator that a stage of the backend `loops` does not have."""
