"""Damage: distinguishes a store's errors that show damaged files from errors of its environment.

RocksDB verifies a checksum for each block that it reads, and compares files with its manifest when it opens a store.
It reports a mismatch as a ``Corruption``, in an exception of any class.  A full disk, permissions, a lock, or a store
of another version are no damage: a store with such an error is not set aside.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from quadlog.errors import StoreDamaged
from quadlog.lean import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

_AROUND: Final = (
    "Permission denied",
    "Too many open files",
    "No space left",
    "Disk quota exceeded",
    "Read-only file system",
    "Cannot allocate memory",
    "Input/output error",
    "Operation not permitted",
    "unsupported format_version",
)
"""Causes that the text of a Corruption may contain, and that do not mean that files are damaged."""
_BEGINNINGS: Final = ("Corruption:", "IO error:")
"""Beginnings of RocksDB's error texts."""
_MISSING: Final = re.compile(r"IO error: No such file or directory: .*(?:\.sst|MANIFEST-\d+|CURRENT)\b")
_TABLE: Final = re.compile(r"([^/\s]+\.sst)\b")


def is_damage(error: BaseException | str) -> bool:
    """Return whether an error reports damaged or missing files of a store.

    A text must come from another quadlog process that has determined that it is an error of a store.

    >>> is_damage("Corruption: block checksum mismatch: stored = 1, computed = 2 in /d/000014.sst")
    True
    >>> is_damage("IO error: No space left on device: While appending to file: /d/000016.sst")
    False
    >>> is_damage(RuntimeError("the function <urn:Corruption:> is not supported")), is_damage(ValueError("Corruption:"))
    (False, False)
    """
    if isinstance(error, StoreDamaged):
        return True
    text = str(error)
    if isinstance(error, BaseException):
        # Exceptions of other classes, or with other beginnings, may quote a client's text.
        is_a_stores = isinstance(error, OSError) or type(error) in {Exception, RuntimeError}
        if not is_a_stores or not text.startswith(_BEGINNINGS):
            return False
    return ("Corruption:" in text or bool(_MISSING.search(text))) and not any(why in text for why in _AROUND)


@contextmanager
def told_of(path: Path | None = None) -> Generator[None]:
    """Convert errors in this context that report damage to `StoreDamaged`.

    Raises:
        StoreDamaged: files of the store in this directory are damaged.

    """
    try:
        yield
    except Exception as error:
        refuse_damage(error, path)
        raise


def refuse_damage(error: BaseException, path: Path | None = None) -> None:
    """Raise `StoreDamaged` if an error reports damage, and return otherwise.

    Raises:
        StoreDamaged: files of the store, in the directory `path` if given, are damaged.

    """
    if isinstance(error, StoreDamaged):
        raise error
    if is_damage(error):
        raise StoreDamaged(f"{path}: {error}" if path else str(error)) from error


class Damage:
    """Damage that was found in one store.  Any thread may note it."""

    def __init__(self, files: Path) -> None:
        """`files`: the directory of the store's RocksDB files."""
        self._files = files
        self.reason = ""
        """Text of the first error that reported damage; empty if there was none."""
        self.leave: Callable[[], None] = lambda: None
        """Starts an orderly end of the process."""
        self.doubt: Callable[[], None] = lambda: None
        """Requests an early count of the stored quads."""

    def note(self, error: BaseException | str, copy: Path | None = None) -> bool:
        """Return whether an error reports damage of the store; if so, start an orderly end of the process.

        Args:
            error: the error, or its text.
            copy: directory of the RocksDB files of the copy that raised the error; None for the store itself.  A copy
                consists of hard links: damage in a file that both share is damage of the store, and damage in any
                other file is damage of the copy alone.

        """
        if not is_damage(error) or (copy is not None and not self._shares(str(error), copy)):
            return False
        if not self.reason:
            self.reason = str(error)
            logger().error("store_damaged", directory=str(self._files), error=self.reason)
            self.leave()
        return True

    def _shares(self, text: str, copy: Path) -> bool:
        for name in _TABLE.findall(text):
            with suppress(OSError):  # one of the two files does not exist any more
                if (self._files / name).samefile(copy / name):
                    return True
        return False
