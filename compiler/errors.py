"""The one exception a user of fullgraph meets for bad input."""


class FullgraphError(Exception):
    """Bad input, said in one sentence: what was wrong, where, and what to do next.

    The command line prints the sentence and exits with code 2. `partial` holds what was found
    until then (an `Explanation`), or None.
    """

    def __init__(self, message: str, *, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial
