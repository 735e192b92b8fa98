"""A store archive: the files of a store as one stream, with a label that describes them.

The stream is a tar archive of plain files in the order of their names, each with nothing but a name and a size.  So the
same files always yield the same bytes, and the same digest.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from dataclasses import asdict, dataclass
from shutil import copyfile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from blake3 import blake3

from quadlog.errors import StateError, UserError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
    from pathlib import Path

PIECE: Final = 1024 * 1024
"""Bytes that are read, sent and written at once."""

AT_ONCE: Final = 64
"""Pieces that are processed before the thread is free for other work."""

SLOW: Final = 20_000_000
"""Bytes per second of a slow disk."""

FILES: Final = "files"
LABEL: Final = "seed.json"
"""Names in the directory of a store archive: its files, and its label."""

SIGNATURE: Final = "Quadlog-Signature"
QUADS: Final = "Quadlog-Quads"
DIGEST: Final = "Quadlog-Digest"
SIZE: Final = "Quadlog-Size"
"""Headers of a store archive in an HTTP message."""

MEDIA_TYPE: Final = "application/x-tar"

_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK)
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_LEFT_OUT: Final = ("LOCK", "LOG")
"""Prefixes of the names of files that RocksDB writes for its own use: its lock, and the log of its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveManifest:
    """Description of a store archive's files: a directory that has all files with this digest has that state."""

    signature: str
    """Signature of the state, 64 hex digits."""
    quads: int
    digest: str
    """BLAKE3 digest of the stream, 256 bits in hex."""
    size: int
    """Bytes of the stream."""

    @property
    def copying_s(self) -> float:
        """Seconds that a slow disk takes to copy the files: a client that waits for that receives nothing meanwhile."""
        return self.size / SLOW

    def headers(self) -> dict[str, str]:
        """Return the label as HTTP headers."""
        return {
            "Content-Type": MEDIA_TYPE,
            SIGNATURE: self.signature,
            QUADS: str(self.quads),
            DIGEST: self.digest,
            SIZE: str(self.size),
        }

    @staticmethod
    def of(headers: Mapping[str, str]) -> ArchiveManifest:
        """Read the label from the HTTP headers of a store archive that arrives.

        Raises:
            UserError: the headers are not complete, or not valid.

        """
        signature, digest = headers.get(SIGNATURE, ""), headers.get(DIGEST, "")
        quads, size = headers.get(QUADS, ""), headers.get(SIZE, "")
        if not (_HEX.fullmatch(signature) and _HEX.fullmatch(digest) and quads.isdigit() and size.isdigit()):
            raise UserError(
                f"a seed comes with {SIGNATURE}, {QUADS}, {DIGEST} and {SIZE}: is it from `quadlog import`?"
            )
        return ArchiveManifest(signature=signature, quads=int(quads), digest=digest, size=int(size))

    def save(self, directory: Path) -> None:
        """Write the label next to the files; the archive is complete then."""
        (directory / LABEL).write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(directory: Path) -> ArchiveManifest | None:
        """Read the label in a directory; None if there is no complete archive."""
        try:
            said: dict[str, Any] = json.loads((directory / LABEL).read_text())
            return ArchiveManifest(**said)
        except (OSError, ValueError, TypeError):
            return None


def pieces_of(directory: Path, *, start: int = 0) -> Iterator[bytes]:
    """Yield the stream of the files in a directory, from the byte `start` on."""
    at = 0
    """Position in the stream where the next piece begins."""
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
    """Yield the part of a piece from the byte `start` on, if there is any."""
    if rest := piece[max(0, start) :]:
        yield rest


class StreamDigest:
    """Digest and size of the part of a stream that has passed."""

    def __init__(self) -> None:
        self._digest, self.size = blake3(), 0

    def update(self, piece: bytes) -> None:
        """Add the next piece."""
        self._digest.update(piece)
        self.size += len(piece)

    def label(self, *, signature: str, quads: int) -> ArchiveManifest:
        """Return the label of the archive, if the stream is complete."""
        return ArchiveManifest(
            signature=signature, quads=quads, digest=self._digest.hexdigest(), size=self.size
        )

    def check(self, label: ArchiveManifest) -> None:
        """Check the complete stream against its label.

        Raises:
            UserError: the stream is not the one that the label describes.

        """
        found = self._digest.hexdigest()
        if (found, self.size) != (label.digest, label.size):
            raise UserError(
                f"{self.size} bytes with the digest {found[:16]}… came, {label.size} with {label.digest[:16]}… were"
                " announced: nothing of it is kept, send it again"
            )


def label_of(
    directory: Path, *, signature: str, quads: int, passed: StreamDigest | None = None
) -> ArchiveManifest:
    """Compute the label of a store archive with the files in a directory; `passed` shows the progress."""
    passed = passed or StreamDigest()
    for piece in pieces_of(directory):
        passed.update(piece)
    return passed.label(signature=signature, quads=quads)


def copy_files(source: Path, target: Path, label: ArchiveManifest) -> Iterator[None]:
    """Copy the files of a store archive into an empty directory of the same machine; yield after each part.

    The kernel copies the files; then the copies are read and checked.

    Raises:
        UserError: the files are not those that the label describes.
        OSError: they cannot be read or written.

    """
    for path in sorted(source.iterdir()):
        if not path.name.startswith(_LEFT_OUT):
            copyfile(path, target / path.name)
            yield
    passed = StreamDigest()
    for number, piece in enumerate(pieces_of(target)):
        passed.update(piece)
        if not number % AT_ONCE:
            yield
    passed.check(label)


async def rechunk(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the same bytes in larger pieces: each piece costs a turn of a thread, or of a connection."""
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


class ArchiveExtractor:
    """Writer of the files of a stream while it arrives, in pieces of any size."""

    def __init__(self, directory: Path, heads: Path | None = None) -> None:
        """Begin, or continue after the data that arrived before in `directory`.

        `heads` records the tar headers, so that another extractor can continue; None: no other one will.

        Raises:
            UserError: the data that arrived before are damaged.
            OSError: they cannot be read.

        """
        self._directory = directory
        self._passed = StreamDigest()
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
            self._passed.update(bytes(self._padding) + head)
            file = self._begin(head, "a+b")
            file.seek(0)
            while piece := file.read(min(PIECE, self._left)):
                self._passed.update(piece)
                self._left -= len(piece)

    @property
    def size(self) -> int:
        """Bytes that arrived, and are kept."""
        return self._passed.size

    def end_at(self, size: int) -> None:
        """Complete a stream of `size` bytes if only its end (padding and the last blocks) is missing."""
        rest = size - self.size
        if not self._left and rest == self._padding + len(_END):
            self.feed(bytes(rest))

    def feed(self, piece: bytes) -> None:
        """Write the next piece.

        Raises:
            UserError: the piece does not belong to the stream of a store archive.
            OSError: it cannot be written.

        """
        self._passed.update(piece)
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
        """Process a block that is not part of a file: the header of the next file, or a block after the last one."""
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

    def end(self, label: ArchiveManifest) -> None:
        """Close the last file, and check the complete stream against its label.

        Raises:
            UserError: the stream is not the one that the label describes.

        """
        self._let_go()
        self._passed.check(label)

    def close(self) -> None:
        """Close all files, whether the stream is complete or not."""
        self._let_go()
        if self._heads is not None:
            self._heads.close()
