"""A parcel: the files of a store as one stream, and what they are to be.

The stream is a tar archive of plain files in the order of their names, each with nothing but a name and a size, so that
the same files always make the same bytes, and the same digest.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from shutil import copyfile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from blake3 import blake3

from quadlog.errors import StateError, UserError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

PIECE: Final = 1024 * 1024
"""Bytes that are read, sent and written at once."""

AT_ONCE: Final = 64
"""Pieces that are looked at before anything else may want the thread."""

SLOW: Final = 20_000_000
"""Bytes a second."""

FILES: Final = "files"
LABEL: Final = "seed.json"
"""In the directory of a parcel: those files, and what they are."""

SIGNATURE: Final = "Quadlog-Signature"
QUADS: Final = "Quadlog-Quads"
DIGEST: Final = "Quadlog-Digest"
HASHED_BY: Final = "Quadlog-Hashed-By"
SIZE: Final = "Quadlog-Size"
"""What stands on a parcel while it is sent."""

MEDIA_TYPE: Final = "application/x-tar"

BLAKE3: Final = "blake3"
"""Seven times as fast as the other one, which only labels of earlier builds name, by naming none."""
BLAKE2B: Final = "blake2b"
_HASHES: Final[dict[str, Callable[[], Any]]] = {BLAKE3: blake3, BLAKE2B: partial(blake2b, digest_size=32)}

_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK)
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_LEFT_OUT: Final = ("LOCK", "LOG")
"""How names begin of what RocksDB writes for itself: its lock, and what it logs of its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the files of a parcel are: whoever has them all with this digest has that state."""

    signature: str
    """Of the state, 64 hex digits."""
    quads: int
    digest: str
    """Of the stream, 256 bits in hex."""
    size: int
    """Bytes of the stream."""
    hashed_by: str = BLAKE2B
    """What made the digest."""

    @property
    def copying_s(self) -> float:
        """How long a slow disk takes to copy the files: whoever waits for that hears nothing meanwhile."""
        return self.size / SLOW

    def headers(self) -> dict[str, str]:
        """As it is sent."""
        return {
            "Content-Type": MEDIA_TYPE,
            SIGNATURE: self.signature,
            QUADS: str(self.quads),
            DIGEST: self.digest,
            HASHED_BY: self.hashed_by,
            SIZE: str(self.size),
        }

    @staticmethod
    def of(headers: Mapping[str, str]) -> Label:
        """What stands on a parcel that comes in.

        Raises:
            UserError: not all of it.

        """
        signature, digest = headers.get(SIGNATURE, ""), headers.get(DIGEST, "")
        quads, size = headers.get(QUADS, ""), headers.get(SIZE, "")
        if not (_HEX.fullmatch(signature) and _HEX.fullmatch(digest) and quads.isdigit() and size.isdigit()):
            raise UserError(
                f"a seed comes with {SIGNATURE}, {QUADS}, {DIGEST} and {SIZE}: is it from `quadlog import`?"
            )
        hashed_by = headers.get(HASHED_BY, BLAKE2B)
        return Label(
            signature=signature, quads=int(quads), digest=digest, size=int(size), hashed_by=hashed_by
        )

    def save(self, directory: Path) -> None:
        """Write it beside the files: the parcel is whole then."""
        (directory / LABEL).write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(directory: Path) -> Label | None:
        """What the parcel in a directory is; None: there is no whole one."""
        try:
            said: dict[str, Any] = json.loads((directory / LABEL).read_text())
            return Label(**said)
        except (OSError, ValueError, TypeError):
            return None


def pieces_of(directory: Path, *, start: int = 0) -> Iterator[bytes]:
    """The stream of the files in a directory, from one of its bytes on."""
    at = 0
    """Of the stream, where the next piece begins."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith(_LEFT_OUT):
            continue
        info = tarfile.TarInfo(path.name)
        info.size = path.stat().st_size
        head, padding = info.tobuf(tarfile.GNU_FORMAT), bytes(-info.size % _BLOCK)
        yield from _rest(head, start - at)
        at += len(head)
        yield from _contents(path, info.size, max(0, start - at))
        at += info.size
        yield from _rest(padding, start - at)
        at += len(padding)
    yield from _rest(_END, start - at)


def _contents(path: Path, size: int, start: int) -> Iterator[bytes]:
    left = size - start
    if left <= 0:
        return
    with path.open("rb") as file:
        file.seek(start)
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
    if left:
        raise StateError(f"{path} became shorter while it was read")


def _rest(piece: bytes, start: int) -> Iterator[bytes]:
    """What of a piece is behind a byte of it, if anything is."""
    if rest := piece[max(0, start) :]:
        yield rest


class Passed:
    """What of a stream has passed by."""

    def __init__(self, hashed_by: str = BLAKE3) -> None:
        """Nothing yet.

        Raises:
            UserError: a later build may know what that is.

        """
        if hashed_by not in _HASHES:
            raise UserError(
                f"what was sent is hashed by {hashed_by}, which this build does not know: upgrade it"
            )
        self._hashed_by, self._digest, self.size = hashed_by, _HASHES[hashed_by](), 0

    def take(self, piece: bytes) -> None:
        """The next piece."""
        self._digest.update(piece)
        self.size += len(piece)

    def label(self, *, signature: str, quads: int) -> Label:
        """What is to stand on the parcel, if this was all."""
        return Label(
            signature=signature,
            quads=quads,
            digest=self._digest.hexdigest(),
            size=self.size,
            hashed_by=self._hashed_by,
        )

    def check(self, label: Label) -> None:
        """It was all.

        Raises:
            UserError: it is not what the label says.

        """
        found = self._digest.hexdigest()
        if (found, self.size) != (label.digest, label.size):
            raise UserError(
                f"{self.size} bytes with the digest {found[:16]}… came, {label.size} with {label.digest[:16]}… were"
                " announced: nothing of it is kept, send it again"
            )


def label_of(directory: Path, *, signature: str, quads: int, hashed_by: str = BLAKE3) -> Label:
    """What is to stand on the parcel of these files."""
    passed = Passed(hashed_by)
    for piece in pieces_of(directory):
        passed.take(piece)
    return passed.label(signature=signature, quads=quads)


def copied(source: Path, target: Path, label: Label) -> Iterator[None]:
    """Copy the files of a parcel into an empty directory of the same machine, some of it at a time.

    The kernel copies them, and they are read again as they lie there then.

    Raises:
        UserError: they are not what the label says.
        OSError: they cannot be read or written.

    """
    for path in sorted(source.iterdir()):
        if not path.name.startswith(_LEFT_OUT):
            copyfile(path, target / path.name)
            yield
    passed = Passed(label.hashed_by)
    for number, piece in enumerate(pieces_of(target)):
        passed.take(piece)
        if not number % AT_ONCE:
            yield
    passed.check(label)


async def gathered(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes in larger pieces: each costs a turn of a thread, or of a connection."""
    held: list[bytes] = []
    size = 0
    async for chunk in stream:
        held.append(chunk)
        size += len(chunk)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


class Unpacker:
    """Writes the files of a stream while it comes in, in pieces of any size."""

    def __init__(self, directory: Path, heads: Path | None = None, *, hashed_by: str = BLAKE3) -> None:
        """Begin, or go on behind what came before.

        Args:
            directory: for the files; empty if nothing came before.
            heads: a file that says what these files are to be, for another one to go on; None: nobody will.
            hashed_by: as the label says.

        Raises:
            UserError: what came before is damaged.
            OSError: it cannot be read.

        """
        self._directory = directory
        self._passed = Passed(hashed_by)
        self._held = b""
        self._file: BinaryIO | None = None
        self._left = self._padding = 0
        self._is_ended = False
        self._heads: BinaryIO | None = None
        if heads is not None:
            heads.touch()
            known = heads.read_bytes()
            os.truncate(heads, len(known) // _BLOCK * _BLOCK)
            try:
                self._read_again(known)
            except BaseException:
                self._let_go()
                raise
            self._heads = heads.open("ab", buffering=0)

    def _read_again(self, heads: bytes) -> None:
        for at in range(0, len(heads) - _BLOCK + 1, _BLOCK):
            if self._left:
                raise UserError("a file that came before has lost its end")
            head = heads[at : at + _BLOCK]
            self._passed.take(bytes(self._padding) + head)
            file = self._begin(head, "a+b")
            file.seek(0)
            while piece := file.read(min(PIECE, self._left)):
                self._passed.take(piece)
                self._left -= len(piece)

    @property
    def size(self) -> int:
        """Bytes that came in, and are kept."""
        return self._passed.size

    def end_at(self, size: int) -> None:
        """Nothing needs to come if all that is missing of a stream of this size is its end."""
        rest = size - self.size
        if not self._left and rest == self._padding + len(_END):
            self.feed(bytes(rest))

    def feed(self, piece: bytes) -> None:
        """The next piece.

        Raises:
            UserError: it is no stream of a parcel.
            OSError: it cannot be written.

        """
        self._passed.take(piece)
        rest = memoryview(self._held + piece if self._held else piece)
        self._held = b""
        while rest:
            if self._left:
                assert self._file is not None, "a file is open while some of it is to come"
                taken = self._file.write(rest[: self._left])
                self._left -= taken
            elif self._padding:
                taken = min(self._padding, len(rest))
                self._padding -= taken
            elif len(rest) < _BLOCK:
                self._held = bytes(rest)
                return
            else:
                self._block(bytes(rest[:_BLOCK]))
                taken = _BLOCK
            rest = rest[taken:]

    def _block(self, block: bytes) -> None:
        """Not of a file: the head of the next one, or what stands behind the last one."""
        if self._is_ended or not any(block):
            self._is_ended = True
        else:
            self._begin(block)

    def _begin(self, block: bytes, mode: str = "xb") -> BinaryIO:
        self._let_go()
        try:
            info = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        except (tarfile.TarError, UnicodeError) as error:
            raise UserError(f"this is not the stream of a seed: {error}") from error
        if not info.isreg() or not _NAME.fullmatch(info.name) or info.name.startswith(_LEFT_OUT):
            raise UserError(f"a seed has plain files in one directory, not {info.name!r}")
        if self._heads is not None:
            self._heads.write(block)
        self._left, self._padding = info.size, -info.size % _BLOCK
        self._file = cast("BinaryIO", (self._directory / info.name).open(mode, buffering=0))
        return self._file

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def end(self, label: Label) -> None:
        """It was all.

        Raises:
            UserError: it is not what the label says.

        """
        self._let_go()
        self._passed.check(label)

    def close(self) -> None:
        """However it ended."""
        self._let_go()
        if self._heads is not None:
            self._heads.close()
