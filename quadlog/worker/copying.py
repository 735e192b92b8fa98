"""Copying: a worker takes the whole store of another one of its data centre, the one that is furthest in the log.

What comes is one stream, whose files are written as it comes: whoever was cut off, or died, goes on where it was.
Offsets in topics mean the same for all workers of a data centre, so the copy hears on where its donor was.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import structlog

from consumers import status
from quadlog.applied import Applied
from quadlog.broker import last_records
from quadlog.clock import wall
from quadlog.core.records import WorkerState
from quadlog.errors import ForeignRecord, QuadlogError, Unavailable
from quadlog.packing import DamagedChunk, Unpacked
from quadlog.parcel import SLOW, Label
from quadlog.worker.coming import COMING, Announced, Coming
from quadlog.worker.donor import APPLIED, COMPRESSION, RESERVED, STORE, STORE_HERE, WINDOW, NoSuchCopy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.core.records import Heartbeat
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

RECENT_MS: Final = 10_000
"""A worker that was heard since then lives."""
HEARTBEATS: Final = 500
"""At the end of the status topic, among which the newest of each worker is."""
OFFER_S: Final = 5.0
"""How long a worker has to say what it would give."""
SILENCE_S: Final = 30.0
"""After which a donor that says nothing more is asked again."""
UNKNOWN_S: Final = 600.0
"""How long a donor may read its files before it says what a copy is, where it does not say how large it is."""
TRIES: Final = 5
"""In a row without a byte, of one donor."""
PAUSE_S: Final = 1.0
SAY_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a worker would give."""

    donor: str
    """Its URL."""
    index: int
    """What it has applied."""
    size: int | None
    """Bytes; None: it does not say."""


class Copied(NamedTuple):
    """What came."""

    applied: Applied
    size: int
    """Bytes of it."""
    came: int
    """Bytes of it that were not here before: what the time that it took was taken for."""


class Copying:
    """At a worker's start, by its main thread."""

    def __init__(self, settings: WorkerSettings, topics: Topics) -> None:
        """Nothing is asked yet."""
        self._settings, self._topics = settings, topics
        self._directory: Final = settings.data_dir / COMING
        self._came = 0
        """Bytes, by this fetch."""
        self.progress: tuple[int, int | None] = 0, None
        """Percent of what is coming, and seconds to go; None: nobody knows."""

    def offer(self, index: int) -> Offer | None:
        """Of the worker that is furthest in the log, if any is further than this."""
        for beat in self._living(index + 1):
            size = None
            try:
                size = _size_at(beat.url)
            except QuadlogError as error:
                log.warning("Couldn't find storage size", donor=beat.url, reason=str(error))
            return Offer(donor=beat.url, index=beat.applied.index, size=size)
        return None

    def donors(self, index: int) -> list[str]:
        """URLs of workers that serve what they applied, and have applied no less than this, the furthest first."""
        return [beat.url for beat in self._living(index)]

    def _living(self, index: int) -> list[Heartbeat]:
        newest: dict[str, Heartbeat] = {}
        for record in last_records(self._settings.kafka, self._topics.status, count=HEARTBEATS):
            with suppress(ForeignRecord):
                if (beat := status.hear(record)) is not None:
                    newest[beat.worker] = beat
        since = wall() - RECENT_MS
        living = [
            beat
            for beat in newest.values()
            if beat.worker != self._settings.node_id
            and beat.state is WorkerState.SERVING
            and (beat.scrub is None or beat.scrub.found == beat.scrub.expected)
            and beat.sent >= since
            and beat.applied.index >= index
        ]
        return sorted(living, key=lambda beat: -beat.applied.index)

    def fetch(self, index: int) -> Copied:
        """Have a store in the place of the one that is here, which nobody has open; each donor is tried.

        Where none gives all of it, what is here of the last one's stays: tried again, it goes on there.

        Raises:
            Unavailable: nobody gives one that is at `index` or further.

        """
        begun = Announced.load(self._directory)
        first = [begun.donor] if begun is not None and Applied.decode(begun.applied).index >= index else []
        reasons: list[str] = []
        self._came = 0
        for donor in dict.fromkeys(first + self.donors(index)):
            if donor not in first:
                self.forget()
            self.progress = 0, None
            try:
                return self._whole(donor)
            except (QuadlogError, httpx.HTTPError, OSError) as error:
                reasons.append(f"{donor}: {error}")
                log.warning("no copy from this worker", donor=donor, reason=str(error))
        raise Unavailable(
            "no worker of this data centre gives a copy: " + ("; ".join(reasons) or "none is there")
        )

    def _whole(self, donor: str) -> Copied:
        coming = self._take(donor)
        try:
            applied = coming.put_into(self._settings.data_dir)
        except (QuadlogError, OSError):
            self.forget()  # nobody knows what of it is wrong
            raise
        return Copied(applied, coming.size, self._came)

    def forget(self, coming: Coming | None = None) -> None:
        """What is here of a copy is not needed any more."""
        if coming is not None:
            coming.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- the stream ---------------------------------------------------------------------------------

    def _take(self, donor: str) -> Coming:
        """All of the stream, from what is here of it on."""
        failures, before, reason = 0, -1, ""
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
                log.info("asks again for the rest of the copy", donor=donor, at=at, reason=reason)
                time.sleep(PAUSE_S)
        finally:
            if coming is not None:
                coming.close()
        raise Unavailable(f"{reason}, {TRIES} times")

    def _begun(self) -> Coming | None:
        announced = Announced.load(self._directory)
        try:
            return Coming(self._directory, announced) if announced is not None else None
        except (QuadlogError, OSError) as error:
            log.warning("what came of a copy before is not used", reason=str(error))
            self.forget()
            return None

    def _begin(self, donor: str) -> Coming:
        """Have it make one: it reads all its files for that."""
        patience = SILENCE_S + UNKNOWN_S
        with suppress(Unavailable):
            patience = SILENCE_S + _size_at(donor) / SLOW
        answer = httpx.post(f"{donor}/copy", headers={STORE: STORE_HERE}, timeout=patience, trust_env=False)
        _check(answer)
        announced = Announced(
            donor=donor,
            label=Label.of(answer.headers),
            applied=answer.headers[APPLIED],
            reserved=answer.headers[RESERVED],
        )
        self.forget()
        return Coming.begin(self._directory, announced)

    def _ask(self, donor: str, coming: Coming) -> None:
        """All that comes of it, behind what is here."""
        if coming.is_whole:
            return
        settings = self._settings
        query = {"digest": coming.announced.label.digest, "from": str(coming.size)}
        headers = {COMPRESSION: settings.copy_compression, WINDOW: str(settings.copy_window)}
        with (
            httpx.Client(timeout=SILENCE_S, trust_env=False) as client,
            client.stream("GET", f"{donor}/copy", params=query, headers=headers) as answer,
        ):
            if not answer.is_success:
                answer.read()
            _check(answer)
            unpacked = Unpacked(window=settings.copy_window)
            self._feed(coming, (piece for sent in answer.iter_raw() for piece in unpacked.feed(sent)))

    def _feed(self, coming: Coming, pieces: Iterator[bytes]) -> None:
        """And say how far it is, now and then."""
        size, first = coming.announced.label.size, coming.size
        began = said = time.monotonic()
        for piece in pieces:
            coming.feed(piece)
            self._came += len(piece)
            elapsed = (now := time.monotonic()) - began
            rate = (coming.size - first) / elapsed if elapsed else 0.0
            left = round((size - coming.size) / rate) if rate else None
            self.progress = percent, _ = 100 * coming.size // size, left
            if now >= said + SAY_S:
                said = now
                log.info(
                    "copies", donor=coming.announced.donor, percent=percent, rate=round(rate), eta_s=left
                )


def _check(answer: httpx.Response) -> None:
    if not answer.is_success:
        kinds: dict[int, type[QuadlogError]] = {404: NoSuchCopy, 503: Unavailable}
        raise kinds.get(answer.status_code, QuadlogError)(answer.text.strip())


def _size_at(donor: str) -> int:
    """Bytes of a worker's store.

    Raises:
        Unavailable: it does not say.

    """
    try:
        answer = httpx.get(f"{donor}/copy/offer", timeout=OFFER_S, trust_env=False)
        return int(answer.raise_for_status().json()["size"])
    except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
        raise Unavailable(str(error)) from error
