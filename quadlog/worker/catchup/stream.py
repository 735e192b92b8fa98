"""Stream of a copy: receives the store of a worker, and continues after an interruption."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import httpx
import structlog

from quadlog.errors import DamagedChunk, NoSuchCopy, QuadlogError, Unavailable
from quadlog.quadstore.quaddir import STORE_HERE
from quadlog.snapshots.chunk_codec import ChunkDecoder
from quadlog.snapshots.store_archive import SLOW
from quadlog.web.http_pool import trust
from quadlog.worker.catchup.donor import COMPRESSION, STORE, WINDOW
from quadlog.worker.catchup.partial_copy import (
    CopyDescription,
    CopyProgress,
    PartialCopy,
    refuse_without_room,
)

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()

OFFER_S: Final = 5.0
"""Seconds that a worker has to report what it would provide."""
SILENCE_S: Final = 30.0
"""Seconds without data after which a donor is requested again."""
UNKNOWN_S: Final = 600.0
"""Seconds that a donor may read its files before it describes a copy, if it does not report its size."""
TRIES: Final = 5
"""Attempts in a row without a byte, for one donor."""
PAUSE_S: Final = 1.0


class CopyStream:
    """Receiver of copies into one directory.  Used by one thread; any thread may read `progress`."""

    def __init__(self, directory: Path, *, compression: str, window: int) -> None:
        """Prepare; no request is sent yet.  `window`: bytes of memory that may be used to decompress."""
        self._directory, self._compression, self._window = directory, compression, window
        self.progress: Final = CopyProgress()

    def forget(self, coming: PartialCopy | None = None) -> None:
        """Delete the received part of a copy."""
        if coming is not None:
            coming.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def receive(self, donor: str) -> PartialCopy:
        """Receive all of a donor's copy, from the part that is here on.

        Raises:
            QuadlogError: the donor does not provide it, or there is no room for it.
            httpx.HTTPError: the donor does not answer.
            OSError: the disk failed.

        """
        failures, before, reason = 0, -1, ""
        self.progress.restart()
        coming = PartialCopy.resumed(self._directory)
        try:
            while failures < TRIES:
                try:
                    coming = coming or self._begin(donor)
                    self._ask(donor, coming)
                    if coming.is_whole:
                        return coming
                    reason = "the stream ended early"
                except NoSuchCopy:
                    self.forget(coming)
                    coming, reason = None, "it keeps that copy no more"
                except (httpx.TransportError, Unavailable, DamagedChunk) as error:
                    reason = str(error)
                at = coming.size if coming is not None else 0
                failures, before = 1 if at > before else failures + 1, at
                log.info("copy_resumed", donor=donor, at=at, reason=reason)
                time.sleep(PAUSE_S)
        finally:
            if coming is not None:
                coming.close()
        raise Unavailable(f"{reason}, {TRIES} times")

    def _begin(self, donor: str) -> PartialCopy:
        """Have the donor make a copy: it reads all its files for that."""
        patience = SILENCE_S + UNKNOWN_S
        self.forget()
        with suppress(Unavailable):
            size = size_at(donor)
            # Before the donor is occupied, and refuses other workers.
            refuse_without_room(self._directory.parent, size)
            patience = SILENCE_S + size / SLOW
        answer = httpx.post(
            f"{donor}/copy", headers={STORE: STORE_HERE}, timeout=patience, verify=trust(), trust_env=False
        )
        _check(answer)
        return PartialCopy.begin(self._directory, CopyDescription.of(answer.headers, donor))

    def _ask(self, donor: str, coming: PartialCopy) -> None:
        """Receive the rest of a copy, after the part that is here."""
        if coming.is_whole:
            return
        query = {"digest": coming.announced.label.digest, "from": str(coming.size)}
        headers = {COMPRESSION: self._compression, WINDOW: str(self._window)}
        with (
            httpx.Client(timeout=SILENCE_S, verify=trust(), trust_env=False) as client,
            client.stream("GET", f"{donor}/copy", params=query, headers=headers) as answer,
        ):
            if not answer.is_success:
                answer.read()
            _check(answer)
            unpacked = ChunkDecoder(window=self._window)
            pieces = (piece for sent in answer.iter_raw() for piece in unpacked.feed(sent))
            for figures in coming.take(pieces, self.progress):
                log.info("copy_progress", donor=coming.announced.donor, **figures)


def _check(answer: httpx.Response) -> None:
    if not answer.is_success:
        kinds: dict[int, type[QuadlogError]] = {404: NoSuchCopy, 503: Unavailable}
        raise kinds.get(answer.status_code, QuadlogError)(answer.text.strip())


def size_at(donor: str) -> int:
    """Return the bytes of a worker's store.

    Raises:
        Unavailable: the worker does not report them.

    """
    try:
        answer = httpx.get(f"{donor}/copy/offer", timeout=OFFER_S, verify=trust(), trust_env=False)
        return int(answer.raise_for_status().json()["size"])
    except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
        raise Unavailable(str(error)) from error
