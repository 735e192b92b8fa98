"""Imports without what packages look for by themselves and nobody here uses: a process starts sooner, smaller."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def without(name: str) -> Generator[None]:
    """Hide a module, unless it is there already.

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
    """Import what a node is made of: a fifth of its CPU until then is for terminals, and for garbage that there is not.

    structlog and httpx look for rich, and import all of it.  What is imported stays.
    """
    gc.disable()
    try:
        with without("rich"):
            yield
    finally:
        gc.enable()


def logger() -> Any:  # noqa: ANN401 - as structlog has it
    """Of structlog, once something is to be said: without it a process that answers queries starts in half the time."""
    import structlog  # noqa: PLC0415

    return structlog.get_logger()
