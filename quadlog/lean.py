"""Imports without optional dependencies that quadlog does not use: a process starts faster and needs less memory."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def without(name: str) -> Generator[None]:
    """Make imports of a module fail in this context, unless it is already imported.

    >>> with without("this"):
    ...     import this
    Traceback (most recent call last):
    ModuleNotFoundError: import of this halted; None in sys.modules
    >>> "this" in sys.modules
    False
    """
    modules: dict[str, Any] = sys.modules
    is_hidden = modules.setdefault(name, None) is None
    try:
        yield
    finally:
        if is_hidden:
            del modules[name]


@contextmanager
def starting() -> Generator[None]:
    """Import the modules of a node in this context, without rich and pygments and without garbage collection.

    These would take a fifth of the CPU time of the imports: structlog and httpx import all of rich and pygments if
    they find them, and imported modules are never garbage.
    """
    gc.disable()
    try:
        with without("pygments"), without("rich"):
            yield
    finally:
        gc.enable()


def logger() -> Any:  # noqa: ANN401 - as structlog has it
    """Import structlog and return a logger.  Without structlog, a process that answers queries starts twice as fast."""
    import structlog  # noqa: PLC0415

    return structlog.get_logger()
