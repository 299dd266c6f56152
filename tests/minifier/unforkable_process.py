"""A process that could not be forked, for tests on a machine without a device."""

import contextlib
import threading
import time
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
        while Path(f"/proc/self/task/{thread.native_id}").exists():  # the kernel is later than join
            time.sleep(0.001)
