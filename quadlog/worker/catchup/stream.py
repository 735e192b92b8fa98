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
from quadlog.snapshots.store_archive import SLOW, ArchiveManifest
from quadlog.web.http_client import trust
from quadlog.worker.catchup.donor import APPLIED, COMPRESSION, FED_FROM, RESERVED, STORE, WINDOW
from quadlog.worker.catchup.partial_copy import CopyDescription, PartialCopy, refuse_without_room

if TYPE_CHECKING:
    from collections.abc import Iterator
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
SAY_S: Final = 5.0


class CopyStream:
    """Receiver of copies into one directory.  Used by one thread; any thread may read `progress`."""

    def __init__(self, directory: Path, *, compression: str, window: int) -> None:
        """Prepare; no request is sent yet.  `window`: bytes of memory that may be used to decompress."""
        self._directory, self._compression, self._window = directory, compression, window
        self.came = 0
        """Bytes that were received and not here before."""
        self.progress: tuple[int, int | None] = 0, None
        """Percent of the store that was received, and estimated seconds left; None: unknown."""

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
        self.progress = 0, None
        coming = self._begun()
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

    def _begun(self) -> PartialCopy | None:
        announced = CopyDescription.load(self._directory)
        try:
            return PartialCopy(self._directory, announced) if announced is not None else None
        except (QuadlogError, OSError) as error:
            log.warning("partial_copy_discarded", reason=str(error))
            self.forget()
            return None

    def _begin(self, donor: str) -> PartialCopy:
        """Have the donor make a copy: it reads all its files for that."""
        patience = SILENCE_S + UNKNOWN_S
        self.forget()
        with suppress(Unavailable):
            size = size_at(donor)
            refuse_without_room(
                self._directory.parent, size
            )  # before the donor is occupied and refuses other workers
            patience = SILENCE_S + size / SLOW
        answer = httpx.post(
            f"{donor}/copy",
            headers={STORE: STORE_HERE},
            timeout=patience,
            verify=trust(),
            trust_env=False,
        )
        _check(answer)
        announced = CopyDescription(
            donor=donor,
            label=ArchiveManifest.of(answer.headers),
            applied=answer.headers[APPLIED],
            reserved=answer.headers[RESERVED],
            fed_from=answer.headers.get(FED_FROM, ""),
        )
        return PartialCopy.begin(self._directory, announced)

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
            self._feed(coming, (piece for sent in answer.iter_raw() for piece in unpacked.feed(sent)))

    def _feed(self, coming: PartialCopy, pieces: Iterator[bytes]) -> None:
        """Store the pieces, and log the progress at intervals."""
        size, first = coming.announced.label.size, coming.size
        began = said = time.monotonic()
        for piece in pieces:
            coming.feed(piece)
            self.came += len(piece)
            elapsed = (now := time.monotonic()) - began
            rate = (coming.size - first) / elapsed if elapsed else 0.0
            left = round((size - coming.size) / rate) if rate else None
            self.progress = percent, _ = 100 * coming.size // size, left
            if now >= said + SAY_S:
                said = now
                log.info(
                    "copy_progress",
                    donor=coming.announced.donor,
                    percent=percent,
                    rate=round(rate),
                    eta_s=left,
                )


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
