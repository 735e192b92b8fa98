"""A copy that comes, and whose taker dies: what is here is read again, and the rest is asked for."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import QuadlogError, UserError
from quadlog.snapshots.store_archive import ArchiveExtractor, label_of, pieces_of
from quadlog.worker.catchup import partial_copy as arriving
from quadlog.worker.catchup.partial_copy import CopyDescription, PartialCopy

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (0, 1, 511, 512, 513, 3000)


@pytest.fixture
def sent(tmp_path: Path) -> bytes:
    """A parcel of some files, in `given`."""
    given = tmp_path / "given"
    given.mkdir()
    for number, size in enumerate(SIZES):
        (given / f"file{number}").write_bytes(random.Random(number).randbytes(size))
    return b"".join(pieces_of(given))


@pytest.fixture
def announced(tmp_path: Path, sent: bytes) -> CopyDescription:
    label = label_of(tmp_path / "given", signature="0" * 64, quads=0)
    assert label.size == len(sent)
    return CopyDescription(donor="http://127.0.0.1:1", label=label, applied="", reserved="urn:r")


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_it_goes_on_behind_what_is_here(tmp_path: Path, sent: bytes, announced: CopyDescription) -> None:
    """Wherever it was cut, twice: not more is asked for again than what is left of a file's head, or behind it."""
    for number, cut in enumerate(range(0, len(sent), 61)):
        directory = tmp_path / f"{number}"
        first = PartialCopy.begin(directory, announced)
        first.feed(sent[:cut])
        first.close()
        second = PartialCopy(directory, announced)
        at = second.size
        assert max(0, cut - 1023) <= at <= cut or at == len(sent)
        second.feed(sent[at : at + 700])
        second.close()
        third = PartialCopy(directory, announced)
        third.feed(sent[third.size :])
        assert third.is_whole
        third.close()
        third._unpacker.end(announced.label)
        assert files_in(directory / "store" / "quads") == files_in(tmp_path / "given")
        assert CopyDescription.load(directory) == announced
        shutil.rmtree(directory)


def test_what_came_whole_needs_nobody(tmp_path: Path, sent: bytes, announced: CopyDescription) -> None:
    """All but the end, which says nothing."""
    coming = PartialCopy.begin(tmp_path / "in", announced)
    assert not coming.is_whole
    coming.feed(sent.rstrip(b"\0"))
    coming.close()
    with closing(PartialCopy(tmp_path / "in", announced)) as again:
        assert again.is_whole


@pytest.mark.parametrize(
    ("what", "why"),
    [("shorter", "has lost its end"), ("no head", "not the stream of a seed"), ("gone", "lost")],
)
def test_what_is_damaged_is_not_gone_on_with(
    what: str, why: str, tmp_path: Path, sent: bytes, announced: CopyDescription
) -> None:
    coming = PartialCopy.begin(tmp_path / "in", announced)
    coming.feed(sent[: len(sent) // 2])
    coming.close()
    files, heads = tmp_path / "in" / "store" / "quads", tmp_path / "in" / "heads"
    match what:
        case "shorter":
            (files / "file3").write_bytes(b"")
        case "gone":
            (files / "file3").unlink()
        case _:
            heads.write_bytes(b"\xff" * 512 + heads.read_bytes())
    with pytest.raises(UserError, match=why):
        PartialCopy(tmp_path / "in", announced)


def test_what_was_changed_is_noticed_in_the_end(
    tmp_path: Path, sent: bytes, announced: CopyDescription
) -> None:
    coming = PartialCopy.begin(tmp_path / "in", announced)
    coming.feed(sent[:-600])
    coming.close()
    file = tmp_path / "in" / "store" / "quads" / "file3"
    file.write_bytes(bytes(len(file.read_bytes())))
    coming = PartialCopy(tmp_path / "in", announced)
    coming.feed(sent[coming.size :])
    with pytest.raises(UserError, match="nothing of it is kept"):
        coming.put_into(tmp_path)


def test_the_last_word_of_a_dying_taker_is_not_read(
    tmp_path: Path, sent: bytes, announced: CopyDescription
) -> None:
    """Half of a head."""
    coming = PartialCopy.begin(tmp_path / "in", announced)
    coming.feed(sent[:2000])
    coming.close()
    heads = tmp_path / "in" / "heads"
    whole = heads.read_bytes()
    heads.write_bytes(whole + b"file")
    coming = PartialCopy(tmp_path / "in", announced)
    coming.feed(sent[coming.size :])
    coming._unpacker.end(announced.label)
    coming.close()
    with closing(PartialCopy(tmp_path / "in", announced)) as again:
        assert again.is_whole


def test_where_there_is_no_room_nothing_is_asked_for(
    tmp_path: Path, announced: CopyDescription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "SPARE", 1e15)
    with pytest.raises(QuadlogError, match=r"\d+ bytes are free on the disk of .*, the copy has \d+"):
        PartialCopy.begin(tmp_path / "in", announced)
    assert CopyDescription.load(tmp_path / "in") is None


def test_a_seed_is_not_written_over_what_is_here(tmp_path: Path, sent: bytes) -> None:
    ArchiveExtractor(tmp_path / "given").close()
    with pytest.raises(FileExistsError):
        ArchiveExtractor(tmp_path / "given").feed(sent)
