"""A worker's dump: its lines, and the worker's claim about their state."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx

from quadlog.errors import StateError, Unavailable, UserError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
"""30 s between two pieces of a dump: a worker that evaluates may delay reads by seconds."""

AGAIN_S: Final = 0.05
"""Seconds before a new request to a worker that has applied nothing since the last one."""

KEPT_S: Final = 2.0
"""Seconds for which the newer of two dumps stays open unread: a worker does not wait long for a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a worker reports about its state."""

    index: int
    chain: str
    """First 16 hex digits of the chain hash."""
    signature: str
    quads: int

    @staticmethod
    def of(headers: Mapping[str, str]) -> Claim | None:
        """Read the claim from the headers of all quads; None: the server makes none."""
        if "quadlog-signature" not in headers:
            return None
        index, chain = headers["quadlog-index"].split(":")
        signature, quads = headers["quadlog-signature"], headers["quadlog-quads"]
        return Claim(index=int(index), chain=chain, signature=signature, quads=int(quads))


@dataclass(frozen=True, slots=True)
class Dump:
    """Lines as in the signature, without line ends; they can be read once."""

    claim: Claim
    lines: Iterator[bytes]


@contextmanager
def dump_of(url: str) -> Generator[Dump]:
    """Open a worker's dump.

    Raises:
        Unavailable: the worker does not answer, or the connection breaks.
        UserError: the server that answers is not a worker of this version.

    """
    try:
        with httpx.stream("GET", f"{url}/statements", timeout=TIMEOUT, trust_env=False) as answer:
            yield Dump(_claim_of(url, answer), _lines(answer.iter_bytes()))
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} did not give all of its quads: {type(error).__name__} {error}") from error


def _claim_of(url: str, answer: httpx.Response) -> Claim:
    if answer.status_code != HTTPStatus.OK:
        raise Unavailable(f"{url}/statements answered {answer.status_code}")
    claim = Claim.of(answer.headers)
    if claim is None:
        raise UserError(f"{url} is no worker, or one too old to say which state its quads are of")
    return claim


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    left = b""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        yield from whole
    if left:
        raise StateError("a dump ended in the middle of a line")


@contextmanager
def dumps_at_one_index(one: str, other: str, wait_s: float) -> Generator[tuple[Dump, Dump]]:
    """Open two workers' dumps, both of the state after the same entry.

    A worker that keeps a branch has no state in common with the other one: its dump is of the state that it keeps.

    During writes, both are rarely at the same index at first.  So the newer dump stays open, and the worker that lags
    is requested again until it has reached that index or is past it.

    Raises:
        Unavailable: they were at no common index for `wait_s` seconds.
        StateError: they have different entries at one index.

    """
    deadline, urls = time.monotonic() + wait_s, (one, other)
    if any(keeps_branch(url) for url in urls):
        with dump_of(one) as first_dump, dump_of(other) as second_dump:
            yield first_dump, second_dump
        return
    while True:
        with ExitStack() as first, ExitStack() as second:
            stacks, kept_until = (first, second), time.monotonic() + KEPT_S
            dumps = [stack.enter_context(dump_of(url)) for stack, url in zip(stacks, urls, strict=True)]
            while not _at_one_index(dumps[0].claim, dumps[1].claim):
                here, there = (dump.claim.index for dump in dumps)
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{one} is at index {here} and {other} at {there}; they were at no common one for"
                        f" {wait_s:g} s. See /status of both: one of them may lag or stand still; under load,"
                        " wait longer"
                    )
                if time.monotonic() > kept_until:
                    break
                behind = 0 if here < there else 1
                stacks[behind].close()
                dumps[behind] = stacks[behind].enter_context(dump_of(urls[behind]))
                if dumps[behind].claim.index == min(here, there):
                    time.sleep(AGAIN_S)
            else:
                yield dumps[0], dumps[1]
                return


def keeps_branch(url: str) -> bool:
    """Return whether a worker keeps a branch that is not in the log.

    Raises:
        Unavailable: it does not answer.

    """
    try:
        return httpx.get(f"{url}/status", timeout=TIMEOUT, trust_env=False).json().get("fork") is not None
    except (ValueError, AttributeError):
        return False  # it is no worker of this version, as its dump will show
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} gives no status: {type(error).__name__} {error}") from error


def _at_one_index(here: Claim, there: Claim) -> bool:
    if here.index == there.index and here.chain != there.chain:
        raise StateError(
            f"at index {here.index} they stand on different entries: {here.chain}… and {there.chain}…;"
            " their quads cannot be compared"
        )
    return here.index == there.index


def status_of(master: str) -> dict[str, Any]:
    """Return `/cluster/status` of a master."""
    try:
        answer = httpx.get(f"{master}/cluster/status", timeout=TIMEOUT, trust_env=False)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"{master} gives no status: {type(error).__name__} {error}") from error
    return found


def url_of(worker: str, master: str | None) -> str:
    """Return the URL of a worker, given as a URL or as an id that a master knows."""
    if "://" in worker:
        return worker.rstrip("/")
    if master is None:
        raise UserError(f"{worker} is no URL: give --master too, which knows where its workers are")
    known = {one["id"]: str(one["url"]) for one in status_of(master)["workers"]}
    if worker not in known:
        raise UserError(f"{master} knows no worker {worker}, only {', '.join(sorted(known)) or 'none'}")
    return known[worker]
