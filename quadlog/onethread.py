"""An iterator that lives on one thread, for consumers on many.

pyoxigraph's iterators panic on another thread than the one that made them, and a web server draws
each chunk of an answer on any thread of its pool.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def on_one_thread(make: Callable[[], Generator[bytes]]) -> Generator[bytes]:
    """What `make` makes, made and drawn on a thread of its own; raises at once what `make` raises."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="iterator")
    try:
        chunks = thread.submit(make).result()
    except BaseException:
        thread.shutdown(wait=False)
        raise
    return _drawn(thread, chunks)


def _drawn(thread: ThreadPoolExecutor, chunks: Generator[bytes]) -> Generator[bytes]:
    try:
        while (chunk := thread.submit(next, chunks, None).result()) is not None:
            yield chunk
    finally:
        thread.submit(chunks.close).result()  # lets go of the snapshot, on its thread too
        thread.shutdown(wait=False)
