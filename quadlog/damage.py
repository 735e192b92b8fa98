"""Damage: which of a store's errors say that its files are damaged, and which that something around it is wrong.

RocksDB verifies a checksum for each block that it reads, and compares files with its manifest when it opens a store.
What it finds is a ``Corruption``, in an exception of any class.  A full disk, permissions, a lock, or a store of
another version are no damage: a store with such an error stays where it is.
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
"""What may stand in a Corruption, as its cause, and says nothing about the files."""
_BEGINNINGS: Final = ("Corruption:", "IO error:")
"""Of what RocksDB says."""
_MISSING: Final = re.compile(r"IO error: No such file or directory: .*(?:\.sst|MANIFEST-\d+|CURRENT)\b")
_TABLE: Final = re.compile(r"([^/\s]+\.sst)\b")


def is_damage(error: BaseException | str) -> bool:
    """Whether it says that files of a store are damaged or missing.  A text is one of a process of ours that knows.

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
        # Others, and other beginnings, may quote a client.
        is_a_stores = isinstance(error, OSError) or type(error) in {Exception, RuntimeError}
        if not is_a_stores or not text.startswith(_BEGINNINGS):
            return False
    return ("Corruption:" in text or bool(_MISSING.search(text))) and not any(why in text for why in _AROUND)


@contextmanager
def told_of(path: Path | None = None) -> Generator[None]:
    """Have damage that is found within raised as `StoreDamaged`.

    Raises:
        StoreDamaged: files of the store in this directory are damaged.

    """
    try:
        yield
    except StoreDamaged:
        raise
    except Exception as error:
        refuse_damage(error, path)
        raise


def refuse_damage(error: BaseException, path: Path | None = None) -> None:
    """Return if it is no damage.

    Raises:
        StoreDamaged: it is.

    """
    if isinstance(error, StoreDamaged):
        raise error
    if is_damage(error):
        raise StoreDamaged(f"{path}: {error}" if path else str(error)) from error


class Damage:
    """What was found damaged of one store.  Any thread may note it."""

    def __init__(self, files: Path) -> None:
        """None is known.

        Args:
            files: the directory of RocksDB's files.

        """
        self._files = files
        self.reason = ""
        """What was found first; empty: nothing."""
        self.leave: Callable[[], None] = lambda: None
        """Ends the process in order."""
        self.doubt: Callable[[], None] = lambda: None
        """Has what is stored counted soon."""

    def note(self, error: BaseException | str, copy: Path | None = None) -> bool:
        """Whether this says that the store is damaged; then the process ends in order.

        Args:
            error: what was raised.
            copy: the directory of RocksDB's files of the copy that it was raised of; None: of the store itself.  A
                copy consists of hard links: damage in a file that both have is damage of the store, and in any other
                file of that copy alone.

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
            with suppress(OSError):  # one of the two is gone
                if (self._files / name).samefile(copy / name):
                    return True
        return False
