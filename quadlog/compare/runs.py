"""External sort of lines that do not fit into memory: sorted runs on disk, merged when they are read."""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RUN: Final = 64 * 1024 * 1024
"""Bytes of lines sorted at once in memory, where they need about twice as many."""

FILES: Final = 64
"""Maximum number of runs to merge at once; each is an open file."""


class Runs:
    """Lines, added in any order and read in sorted order."""

    def __init__(self, directory: Path, name: str, *, run: int = RUN, files: int = FILES) -> None:
        """Start without lines; files are named by `name` in a directory, which the caller removes."""
        self._directory, self._name, self._run, self._files = directory, name, run, files
        self._numbers = count()
        self._paths: list[Path] = []

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines, in sorted runs."""
        held: list[bytes] = []
        size = 0
        for line in lines:
            held.append(line)
            size += len(line)
            if size >= self._run:
                self._keep(held)
                held, size = [], 0
        if held:
            self._keep(held)

    def _keep(self, lines: list[bytes]) -> None:
        lines.sort()
        self._write(lines)
        if len(self._paths) >= self._files:
            merged, self._paths = self._paths, []
            self._write(_merged(merged))
            for path in merged:
                path.unlink()

    def _write(self, lines: Iterable[bytes]) -> None:
        path = self._directory / f"{self._name}.{next(self._numbers)}"
        with path.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
        self._paths.append(path)

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines in sorted order."""
        return _merged(self._paths)


def _merged(paths: list[Path]) -> Iterator[bytes]:
    with ExitStack() as opened:
        files = [opened.enter_context(path.open("rb")) for path in paths]
        # Without line ends: a line feed sorts after a tab and before a space.
        yield from heapq.merge(*((line[:-1] for line in file) for file in files))


def differences(one: Iterable[bytes], other: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the items that only one of two sorted sequences has: with 0 for the first, 1 for the other.

    >>> list(differences([b"a", b"c", b"d"], [b"b", b"c"]))
    [(0, b'a'), (1, b'b'), (0, b'd')]
    """
    left, right = iter(one), iter(other)
    here, there = next(left, None), next(right, None)
    while here is not None or there is not None:
        if here == there:
            here, there = next(left, None), next(right, None)
        elif there is None or (here is not None and here < there):
            yield 0, here or b""
            here = next(left, None)
        else:
            yield 1, there
            there = next(right, None)
