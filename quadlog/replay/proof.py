"""Count of the files of a bundle.  One process hashes lines on one core, so several processes share the files.

    python -m quadlog.replay.proof

The process reads one line of JSON, a list with a path and a word for each file, and writes one:
a list of `BundleFile`s.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.child_process import ChildTask
from quadlog.replay.bundle import BundleFile, LastWord, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    Named = tuple[Path, LastWord]

SMALL: Final = 4 * 1024 * 1024
"""Maximum bytes of files that this process counts: for these, starting processes takes longer than counting."""


def count(named: Sequence[Named]) -> list[BundleFile]:
    """Read files as they are stored on disk, and describe them in the given order.

    Raises:
        StateError: one of them is not a file of lines.

    """
    sizes = {path: path.stat().st_size for path, _ in named}
    if sum(sizes.values()) <= SMALL:
        return [counted(*one) for one in named]
    shares: list[list[Named]] = [[] for _ in range(min(os.cpu_count() or 1, len(named)))]
    for one in sorted(named, key=lambda one: -sizes[one[0]]):
        min(shares, key=lambda share: sum(sizes[path] for path, _ in share)).append(one)
    with ThreadPoolExecutor(len(shares)) as pool:
        found = {file.name: file for some in pool.map(_counted_apart, shares) for file in some}
    return [found[path.name] for path, _ in named]


def _counted_apart(share: Sequence[Named]) -> list[BundleFile]:
    with ChildTask(
        "quadlog.replay.proof", said=json.dumps([(str(path), word) for path, word in share])
    ) as process:
        return [BundleFile(**file | {"word": LastWord(file["word"])}) for file in process.result()]


def main() -> None:
    """Count the files that standard input names."""
    named = json.loads(sys.stdin.read())
    files = [counted(Path(path), LastWord(word)) for path, word in named]
    sys.stdout.write(json.dumps([asdict(file) for file in files]))


if __name__ == "__main__":
    main()
