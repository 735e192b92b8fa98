"""Copying: a worker takes the whole store of another one of its data centre, the one that is furthest in the log.

What comes is one stream, written to one file as it comes, so that whoever was cut off, or died, goes on where it was.
Offsets in topics mean the same for all workers of a data centre, so the copy hears on where its donor was.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx
import structlog

from consumers import status
from quadlog.applied import Applied
from quadlog.broker import last_records
from quadlog.clock import wall
from quadlog.core.records import WorkerState
from quadlog.errors import ForeignRecord, QuadlogError, Unavailable
from quadlog.packing import Compression, DamagedChunk, Unpacked
from quadlog.parcel import PIECE, Label, Unpacker
from quadlog.quaddir import FILES, new_reserved_graph
from quadlog.quadstore import QuadStore
from quadlog.worker.donor import APPLIED, COMPRESSION, RESERVED, STORE, STORE_HERE, NoSuchCopy
from quadlog.worker.mend import QUADS, put_aside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from quadlog.core.records import Heartbeat
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

_COMING: Final = "copy.coming"
_STREAM: Final = "stream"
_LABEL: Final = "copy.json"
_COPIED: Final = "quads.copied"
RECENT_MS: Final = 10_000
"""A worker that was heard since then lives."""
HEARTBEATS: Final = 500
"""At the end of the status topic, among which the newest of each worker is."""
SPARE: Final = 2.1
"""Of a copy's size, that has to be free: it comes as a stream, and is unpacked then."""
OFFER_S: Final = 5.0
"""How long a worker has to say what it would give."""
TRIES: Final = 5
"""In a row without a byte, of one donor."""
PAUSE_S: Final = 1.0
SAY_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A copy of which not all may be here."""

    donor: str
    """URL of the worker that gives it."""
    label: Label
    applied: str
    reserved: str

    def save(self, directory: Path) -> None:
        """Beside the stream."""
        (directory / _LABEL).write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(directory: Path) -> Coming | None:
        """What was coming, if anything was."""
        try:
            said: dict[str, Any] = json.loads((directory / _LABEL).read_text())
            said["label"] = Label(**said["label"])
            return Coming(**said)
        except (OSError, ValueError, TypeError, KeyError):
            return None


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
    """Bytes that were sent."""


class Copying:
    """At a worker's start, by its main thread."""

    def __init__(self, settings: WorkerSettings, topics: Topics) -> None:
        """Nothing is asked yet."""
        self._settings, self._topics = settings, topics
        self._directory: Final = settings.data_dir / _COMING
        self._copied: Final = settings.data_dir / _COPIED
        self.progress: tuple[int, int | None] = 0, None
        """Percent of what is coming, and seconds to go; None: nobody knows."""

    def offer(self, index: int) -> Offer | None:
        """Of the worker that is furthest in the log, if any is further than this."""
        for beat in self._living(index + 1):
            size: int | None = None
            try:
                answer = httpx.get(f"{beat.url}/copy/offer", timeout=OFFER_S, trust_env=False)
                size = int(answer.raise_for_status().json()["size"])
            except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
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
        shutil.rmtree(self._copied, ignore_errors=True)
        coming = Coming.load(self._directory)
        is_worth_it = coming is not None and self._size() and Applied.decode(coming.applied).index >= index
        begun = [coming.donor] if coming is not None and is_worth_it else []
        reasons: list[str] = []
        for donor in dict.fromkeys(begun + self.donors(index)):
            if donor not in begun:
                self._begin_anew()
            self.progress = 0, None
            try:
                return self._whole(donor)
            except (QuadlogError, httpx.HTTPError, OSError) as error:
                reasons.append(f"{donor}: {error}")
                log.warning("no copy from this worker", donor=donor, reason=str(error))
            shutil.rmtree(self._copied, ignore_errors=True)
        raise Unavailable(
            "no worker of this data centre gives a copy: " + ("; ".join(reasons) or "none is there")
        )

    def _whole(self, donor: str) -> Copied:
        coming = self._take(donor)
        try:
            return Copied(self._unpack(coming), coming.label.size)
        except (QuadlogError, OSError):
            self.forget()  # nobody knows what of it is wrong
            raise

    def forget(self) -> None:
        """What is here of a copy is not needed any more."""
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- the stream ---------------------------------------------------------------------------------

    def _take(self, donor: str) -> Coming:
        """All of the stream, from what is here of it on."""
        self._directory.mkdir(exist_ok=True)
        failures, before, reason = 0, -1, ""
        while failures < TRIES:
            try:
                coming = self._ask(donor, Coming.load(self._directory))
            except NoSuchCopy:
                self._begin_anew()
                reason = "it keeps that copy no more"
            except (httpx.TransportError, Unavailable, DamagedChunk) as error:
                reason = str(error)
            else:
                if self._size() == coming.label.size:
                    return coming
                reason = "the stream ended early"
            failures = 1 if self._size() > before else failures + 1
            before = self._size()
            log.info("asks again for the rest of the copy", donor=donor, at=before, reason=reason)
            time.sleep(PAUSE_S)
        raise Unavailable(f"{reason}, {TRIES} times")

    def _begin_anew(self) -> None:
        self.forget()
        self._directory.mkdir()

    def _size(self) -> int:
        with suppress(FileNotFoundError):
            return (self._directory / _STREAM).stat().st_size
        return 0

    def _ask(self, donor: str, coming: Coming | None) -> Coming:
        """All that comes of it, behind what is here."""
        at = self._size() if coming is not None else 0
        if coming is not None and at == coming.label.size:
            return coming
        query = {"digest": coming.label.digest, "from": str(at)} if coming is not None else {}
        headers = {COMPRESSION: self._settings.copy_compression}
        timeout = httpx.Timeout(10.0, read=120.0)  # it reads all its files before the first byte
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("GET", f"{donor}/copy", params=query, headers=headers) as answer,
        ):
            if not answer.is_success:
                answer.read()
                kinds: dict[int, type[QuadlogError]] = {404: NoSuchCopy, 503: Unavailable}
                raise kinds.get(answer.status_code, QuadlogError)(answer.text.strip())
            if coming is None:
                coming = self._begin(donor, answer)
            unpacked = Unpacked(Compression(answer.headers.get(COMPRESSION, Compression.NONE)))
            pieces = (piece for sent in answer.iter_raw() for piece in unpacked.feed(sent))
            with (self._directory / _STREAM).open("ab") as file:
                for piece in self._told(pieces, coming, at):
                    file.write(piece)
        return coming

    def _begin(self, donor: str, answer: httpx.Response) -> Coming:
        label, store = Label.of(answer.headers), answer.headers.get(STORE, STORE_HERE)
        if store != STORE_HERE:
            raise QuadlogError(f"its store is of {store}, and here is {STORE_HERE}: have both of one version")
        free = shutil.disk_usage(self._directory).free
        if free < label.size * SPARE:
            raise QuadlogError(
                f"{free} bytes are free on the disk of {self._directory}, the copy has {label.size}"
            )
        (self._directory / _STREAM).unlink(missing_ok=True)
        coming = Coming(
            donor=donor, label=label, applied=answer.headers[APPLIED], reserved=answer.headers[RESERVED]
        )
        coming.save(self._directory)
        return coming

    def _told(self, pieces: Iterator[bytes], coming: Coming, at: int) -> Iterator[bytes]:
        """How far it is, now and then."""
        size, first = coming.label.size, at
        began = said = time.monotonic()
        for piece in pieces:
            yield piece
            at += len(piece)
            elapsed = (now := time.monotonic()) - began
            rate = (at - first) / elapsed if elapsed else 0.0
            self.progress = 100 * at // size, round((size - at) / rate) if rate else None
            if now >= said + SAY_S:
                said = now
                percent, left = self.progress
                log.info("copies", donor=coming.donor, percent=percent, rate=round(rate), eta_s=left)

    # --- what came ----------------------------------------------------------------------------------

    def _unpack(self, coming: Coming) -> Applied:
        """Put it in its place.  A death between any two steps leaves the old store, or the new one, or none."""
        files = self._copied / FILES
        files.mkdir(parents=True)
        unpacker = Unpacker(files)
        try:
            with (self._directory / _STREAM).open("rb") as stream:
                while piece := stream.read(PIECE):
                    unpacker.feed(piece)
            unpacker.end(coming.label)
        finally:
            unpacker.close()
        new_reserved_graph(self._copied, coming.reserved)
        applied = Applied.decode(coming.applied)
        store = QuadStore.open(self._copied)
        found = store.applied
        store.close()
        if found != applied:
            raise QuadlogError(f"the copy is at effect {found.index}, and was said to be at {applied.index}")
        put_aside(self._settings.data_dir)
        self._copied.rename(self._settings.data_dir / QUADS)
        shutil.rmtree(self._directory)
        return applied
