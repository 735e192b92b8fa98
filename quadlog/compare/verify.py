"""`quadlog verify`: an independent count of the quads of one worker."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from quadlog.compare.dumps import dump_of, status_of, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCount:
    """Result of a count."""

    signature: str
    quads: int


def count(lines: Iterable[bytes]) -> VerifyCount:
    """Return signature and number of quads of lines; comments represent empty graphs and are not quads.

    >>> count([b'<urn:s> <urn:p> "o" <urn:g> .']).signature[:16]
    'a4bd004eabbf1290'
    """
    total = quads = 0
    for line in lines:
        total += int.from_bytes(blake2b(line, digest_size=32).digest(), "big")
        quads += not line.startswith(b"#")
    return VerifyCount(signature=f"{total % (1 << 256):064x}", quads=quads)


def verify(worker: str, master: str | None, say: Callable[[str], None]) -> bool:
    """Count the quads of a worker, compare with what it and the others report; return True if all are equal."""
    url = url_of(worker, master)
    with dump_of(url) as dump:
        claim = dump.claim
        others: list[dict[str, Any]] = [] if master is None else status_of(master)["workers"]
        counted = count(dump.lines)
    say(f"{worker} at index {claim.index}: {counted.quads} quads, signature {counted.signature}")
    right = (counted.signature, counted.quads) == (claim.signature, claim.quads)
    says = (
        "says the same of itself" if right else f"DIFFERENT: it says {claim.quads} quads, {claim.signature}"
    )
    say(f"{worker} {says}")
    for other in others:
        if other["url"] == url:
            continue
        if (other["applied_index"], other["applied_chain"][:16]) != (claim.index, claim.chain):
            say(f"{other['id']} is {other['state']} at index {other['applied_index']}: not compared")
        elif other["signature"] == counted.signature:
            say(f"{other['id']} says the same")
        else:
            say(f"{other['id']} DIFFERENT: it says {other['quads']} quads, {other['signature']}")
            right = False
    return right
