"""`quadlog export`: all quads of one state, counted while they arrive, and compared with what the worker claims."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, Final

import httpx

from quadlog.compare.dumps import Claim, status_of
from quadlog.core.effects.signature import LineCount, render
from quadlog.errors import StateError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from quadlog.progress import Phases

TIMEOUT: Final = httpx.Timeout(60.0, connect=5.0)
"""60 s between two pieces."""

PART: Final = ".part"


def export(master: str, target: Path | None, phases: Phases) -> Claim:
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


def _written_out(answer: httpx.Response, file: BinaryIO, phases: Phases) -> Claim:
    claim = Claim.of(answer.headers)
    if claim is None:
        raise Unavailable(
            "the master does not say which state its quads are of: it is older than this command"
        )
    count, left = LineCount(), b""
    with phases.phase("writing", claim.quads, lambda: (count.quads, count.quads)):
        for piece in answer.iter_bytes():
            file.write(piece)
            *lines, left = (left + piece).split(b"\n")
            count.add(lines)
    found = render(count.signature)
    if (found, count.quads, left) != (claim.signature, claim.quads, b""):
        raise StateError(
            f"{count.quads} quads with the signature {found[:16]}… came, the worker that gave them says that"
            f" it holds {claim.quads} with {claim.signature[:16]}… at index {claim.index}: nothing is kept of them. See"
            " alarms in /cluster/status, and `quadlog verify`"
        )
    return claim


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
