"""Shipping of a seed: send it to all workers through one master, have it agreed on, and wait until it is served."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from quadlog.errors import NotEmpty, OutcomeUnknown, Unavailable
from quadlog.snapshots.store_archive import FILES, pieces_of
from quadlog.web.master_client import checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from quadlog.progress import Phases
    from quadlog.snapshots.store_archive import ArchiveManifest

ANSWER_S: Final = 300.0
CONNECT_S: Final = 5.0
TIMEOUT: Final = httpx.Timeout(ANSWER_S, connect=CONNECT_S)

WAIT_S: Final = 300.0
"""Seconds to wait until every worker serves the seed."""

SILENT_S: Final = 15.0
"""Seconds after which a worker that does not answer is no longer waited for."""

ASK_S: Final = 15.0
LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The master that an import uses."""

    url: str
    client: httpx.Client

    def seeds(self) -> dict[str, Any]:
        """Return `/cluster/seed`, by data centre.

        Raises:
            Unavailable: the master does not answer, or not in the expected form.

        """
        try:
            answer = self.client.get(f"{self.url}/cluster/seed", timeout=ASK_S)
            found: dict[str, Any] = answer.raise_for_status().json()["dcs"]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise Unavailable(f"{self.url} does not say how it is: {type(error).__name__} {error}") from error
        return found


def refuse_if_begun(master: ImportTarget) -> None:
    """Check, before any source is read, that the log can still begin with a seed.

    Raises:
        NotEmpty: the log holds something, or begins with a seed that all workers have.
        Unavailable: a data centre does not answer.

    """
    dcs = master.seeds()
    for dc, said in dcs.items():
        if error := said.get("error"):
            raise Unavailable(f"{dc} cannot be reached through {master.url}: {error}; nothing was changed")
    seeds = [said["seed"] for said in dcs.values() if said["seed"]]
    if seeds and not _lacking(dcs, seeds[0]["signature"]):
        raise NotEmpty(
            f"the log begins with a seed already: {seeds[0]['signature'][:16]}… with {seeds[0]['quads']} quads, from"
            f" {', '.join(seeds[0]['sources'])}, and every worker has it; nothing was changed"
        )
    if not seeds and any(said["begun"] for said in dcs.values()):
        raise NotEmpty(
            "the log holds something, and a seed comes before all of it: nothing was changed. Add to what is there with"
            " updates, or import into a new repository"
        )


def _lacking(dcs: dict[str, Any], signature: str) -> list[str]:
    """Return the workers that do not keep the seed, or do not serve."""
    return [
        f"{worker} of {dc} is {said['state']}"
        for dc, here in dcs.items()
        for worker, said in here.get("workers", {}).items()
        if signature not in (said["keeps"] or []) or said["state"] != "serving"
    ]


def ship(
    master: ImportTarget, label: ArchiveManifest, directory: Path, sources: Sequence[str], phases: Phases
) -> list[str]:
    """Send the seed to all workers and have the log begin with it; return the workers that do not have it yet.

    Raises:
        NotEmpty: the log began with something else meanwhile.
        Unavailable: no worker of some data centre accepted it; nothing was changed.
        OutcomeUnknown: the request was sent, and it is not known yet whether the log begins with the seed.

    """
    _refuse_other(master.seeds(), label)
    failures = _send(master, label, directory, phases)
    _check_kept(master, label, failures)
    _agree(master, label, sources)
    return _await(master, label, phases)


def _check_kept(master: ImportTarget, label: ArchiveManifest, failures: Mapping[str, str]) -> None:
    """Check that a worker of each data centre keeps the seed; wait for one that restarted meanwhile."""
    began = time.monotonic()
    while without := _without(dcs := master.seeds(), label):
        _refuse_other(dcs, label)
        if time.monotonic() - began > SILENT_S:
            dc = without[0]
            why = "; ".join(f"{name}: {text}" for name, text in failures.items() if name.split("/")[0] == dc)
            raise Unavailable(
                f"no worker of {dc} has taken the seed ({why or dcs[dc].get('error', 'none is there')}):"
                " nothing was changed"
            )
        time.sleep(LOOK_S)


def _refuse_other(dcs: Mapping[str, Any], label: ArchiveManifest) -> None:
    """Raise NotEmpty if another import was first."""
    others = [said["seed"] for said in dcs.values() if said.get("seed")]
    if others and others[0]["signature"] != label.signature:
        raise NotEmpty(
            f"the log begins with another seed: {others[0]['signature'][:16]}… with {others[0]['quads']} quads, from"
            f" {', '.join(others[0]['sources'])}, and this one is {label.signature[:16]}…; nothing was changed"
        )


def _without(dcs: Mapping[str, Any], label: ArchiveManifest) -> list[str]:
    """Return the data centres where no worker keeps the seed, except read-only and muted ones."""
    return [
        dc
        for dc, said in dcs.items()
        if said.get("role") not in {"read-only", "muted"}
        and not any(label.signature in (worker["keeps"] or []) for worker in said.get("workers", {}).values())
    ]


def _send(master: ImportTarget, label: ArchiveManifest, directory: Path, phases: Phases) -> dict[str, str]:
    """Send the seed; return failures by data centre or worker."""
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for piece in pieces_of(directory / FILES):
            yield piece
            sent += len(piece)

    headers = label.headers() | {"Content-Length": str(label.size)}
    # The master answers after the slowest worker has stored the seed, and its neighbour a copy of that.
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S, read=ANSWER_S + 2 * label.copying_s)
    with phases.phase("sending to all workers", label.size, lambda: (sent, 0)):
        try:
            answer = master.client.put(
                f"{master.url}/cluster/seed/files", content=pieces(), headers=headers, timeout=timeout
            )
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the seed could not be sent: {type(error).__name__} {error}; nothing was changed"
            ) from error
    failures: dict[str, str] = _checked(answer).json()["failures"]
    return failures


def _agree(master: ImportTarget, label: ArchiveManifest, sources: Sequence[str]) -> None:
    said = {
        "signature": label.signature,
        "quads": label.quads,
        "digest": label.digest,
        "sources": list(sources),
    }
    try:
        answer = master.client.post(f"{master.url}/cluster/seed", json=said)
    except httpx.HTTPError as error:
        raise OutcomeUnknown(
            f"nobody knows yet whether the log begins with the seed: {type(error).__name__} {error}; see `seed` in"
            " /cluster/status. If it is the one, run the same import again: it finishes"
        ) from error
    _checked(answer, unsure=True)


def _await(master: ImportTarget, label: ArchiveManifest, phases: Phases) -> list[str]:
    """Wait until every worker that answers serves the seed; return those that do not."""
    lacking, began = [""], time.monotonic()
    with phases.phase("workers take it up", 1, lambda: (0, 0)):
        while lacking and time.monotonic() - began < WAIT_S:
            try:
                dcs = master.seeds()
            except Unavailable as error:  # the master may return, and the log begins with the seed anyway
                lacking = [str(error)]
            else:
                if time.monotonic() - began > SILENT_S:
                    dcs = {dc: _those_that_answer(said) for dc, said in dcs.items()}
                lacking = _lacking(dcs, label.signature)
                lacking += [f"{dc} has not heard of it" for dc, said in dcs.items() if not said.get("seed")]
            if lacking:
                time.sleep(LOOK_S)
    with suppress(Unavailable):
        lacking += [text for text in _lacking(master.seeds(), label.signature) if text not in lacking]
    return lacking


def _those_that_answer(said: dict[str, Any]) -> dict[str, Any]:
    workers = {
        name: worker for name, worker in said.get("workers", {}).items() if worker["keeps"] is not None
    }
    return said | {"workers": workers}


def _checked(answer: httpx.Response, *, unsure: bool = False) -> httpx.Response:
    """Return a successful answer.  `unsure`: if a proxy answered, the master may still have done the request."""
    failure = OutcomeUnknown if unsure and answer.is_server_error else Unavailable
    return checked(answer, failure(f"the master answered {answer.status_code}: {answer.text[:200]}"))
