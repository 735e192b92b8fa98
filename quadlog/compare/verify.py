"""`quadlog verify`: an independent count of the quads of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadlog.compare.dumps import dump_of, status_of, url_of
from quadlog.core.effects.signature import LineCount, render

if TYPE_CHECKING:
    from collections.abc import Callable


def verify(worker: str, master: str | None, say: Callable[[str], None]) -> bool:
    """Count the quads of a worker, compare with what it and the others report; return True if all are equal."""
    url = url_of(worker, master)
    with dump_of(url) as dump:
        claim = dump.claim
        others: list[dict[str, Any]] = [] if master is None else status_of(master)["workers"]
        counted = LineCount()
        counted.add(dump.lines)
    signature = render(counted.signature)
    say(f"{worker} at index {claim.index}: {counted.quads} quads, signature {signature}")
    right = (signature, counted.quads) == (claim.signature, claim.quads)
    says = (
        "says the same of itself" if right else f"DIFFERENT: it says {claim.quads} quads, {claim.signature}"
    )
    say(f"{worker} {says}")
    for other in others:
        if other["url"] == url:
            continue
        if (other["applied_index"], other["applied_chain"][:16]) != (claim.index, claim.chain):
            say(f"{other['id']} is {other['state']} at index {other['applied_index']}: not compared")
        elif other["signature"] == signature:
            say(f"{other['id']} says the same")
        else:
            say(f"{other['id']} DIFFERENT: it says {other['quads']} quads, {other['signature']}")
            right = False
    return right
