"""A process that could not be forked, for tests on a machine without a device."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def unforkable_process() -> Iterator[None]:
    """Meanwhile there is a thread as autograd starts one for each device."""
    begun, over = threading.Event(), threading.Event()

    def rest() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("pt_autograd_0")
        begun.set()
        over.wait()

    thread = threading.Thread(target=rest)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()
