"""A bundle's files are counted by processes of their own, and here where they are small."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import StateError
from quadlog.replay import proof
from quadlog.replay.bundle import LastWord, counted

if TYPE_CHECKING:
    from pathlib import Path


def written(directory: Path, word: LastWord, number: int, lines: int) -> tuple[Path, LastWord]:
    path = directory / f"{word}-{number:05}.gz"
    path.write_bytes(gzip.compress(b"".join(b"<urn:%d> <urn:%d> .\n" % (number, n) for n in range(lines))))
    return path, word


@pytest.mark.parametrize("small", [0, proof.SMALL])
def test_every_file_is_counted_as_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(proof, "SMALL", small)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    named = [written(tmp_path, word, n, 10**n) for word in LastWord for n in range(4)]
    expected = [counted(*one) for one in named]
    assert len({file.sum for file in expected}) == 9, "of quads, of graphs, and those that are not counted"
    monkeypatch.setattr(proof, "counted", counted if small else pytest.fail)
    assert proof.count(named) == expected
    assert proof.count(named[:1]) == expected[:1]


def test_who_finds_no_lines_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "SMALL", 0)
    whole, cut = (written(tmp_path, LastWord.INSERTED, n, 10) for n in range(2))
    cut[0].write_bytes(cut[0].read_bytes()[:-20])
    with pytest.raises(StateError, match=re.escape(str(cut[0]))):
        proof.count([whole, cut])
