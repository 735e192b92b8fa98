"""`quadlog export`: all quads of one state, counted while they arrive, and compared with what the worker claims."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, Final

import httpx

from quadlog.compare.dumps import status_of
from quadlog.core.effects.signature import LineCount, render
from quadlog.errors import StateError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from quadlog.progress import Phases

TIMEOUT: Final = httpx.Timeout(60.0, connect=5.0)
"""60 s between two pieces."""

PART: Final = ".part"


@dataclass(slots=True)
class ExportCount:
    """Signature and number of the lines received so far."""

    _lines: LineCount = field(default_factory=LineCount)
    _left: bytes = b""

    def add(self, piece: bytes) -> None:
        """Add some more bytes."""
        *lines, self._left = (self._left + piece).split(b"\n")
        self._lines.add(lines)

    @property
    def quads(self) -> int:
        """Number of quads received."""
        return self._lines.quads

    @property
    def signature(self) -> str:
        """Signature of all complete lines received."""
        return render(self._lines.signature)

    @property
    def is_whole(self) -> bool:
        """True if the last line is complete."""
        return not self._left


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The state that was written."""

    index: int
    chain: str
    """Prefix of the chain hash."""
    quads: int
    signature: str


def export(master: str, target: Path | None, phases: Phases) -> Exported:
    """Write all quads to a file, or to standard output; a file is created only if all checks pass.

    Raises:
        Unavailable: the quads did not arrive completely.
        StateError: the quads are not those that the worker claims to hold.

    """
    repository = status_of(master)["repository"]
    try:
        with (
            httpx.stream(
                "GET", f"{master}/repositories/{repository}/statements", timeout=TIMEOUT, trust_env=False
            ) as answer,
            _written(target) as file,
        ):
            if answer.status_code != HTTPStatus.OK:
                raise Unavailable(
                    f"{master} answered {answer.status_code}: {answer.read().decode(errors='replace')[:300]}"
                )
            return _written_out(answer, file, phases)
    except httpx.HTTPError as error:
        raise Unavailable(
            f"{master} did not give all quads: {type(error).__name__} {error}; nothing is kept of them, try again"
        ) from error


def _written_out(answer: httpx.Response, file: BinaryIO, phases: Phases) -> Exported:
    headers = answer.headers
    if "quadlog-signature" not in headers:
        raise Unavailable(
            "the master does not say which state its quads are of: it is older than this command"
        )
    index, chain = headers["quadlog-index"].split(":")
    claimed, announced = headers["quadlog-signature"], int(headers["quadlog-quads"])
    count = ExportCount()
    with phases.phase("writing", announced, lambda: (count.quads, count.quads)):
        for piece in answer.iter_bytes():
            file.write(piece)
            count.add(piece)
    if (count.signature, count.quads) != (claimed, announced) or not count.is_whole:
        raise StateError(
            f"{count.quads} quads with the signature {count.signature[:16]}… came, the worker that gave them says that"
            f" it holds {announced} with {claimed[:16]}… at index {index}: nothing is kept of them. See alarms in"
            " /cluster/status, and `quadlog verify`"
        )
    return Exported(index=int(index), chain=chain, quads=count.quads, signature=count.signature)


@contextmanager
def _written(target: Path | None) -> Generator[BinaryIO]:
    """Open a file that gets its name at the end, or standard output, which is only flushed."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = target.with_name(target.name + PART)
    try:
        with part.open("wb", buffering=1024 * 1024) as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
