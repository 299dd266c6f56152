"""The exception for bad input."""


class FullgraphError(Exception):
    """Bad input; one sentence says what was wrong, where, and what to do next.

    The command line prints the sentence and exits with code 2. `partial` holds the results so far
    (an `Explanation`), or None.
    """

    def __init__(self, message: str, *, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial
