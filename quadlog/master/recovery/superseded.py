"""Detection of a master whose posts do not count any more, by the knowledge of its peers.

If the disks of a data centre's Kafka and of its master are older copies of the same moment, they agree with
each other, and neither shows the loss.  The peers saw the topic of posts go back, and have voided the
incarnation (`topic_identity`).  A master that is not let in asks them, or it receives own posts that it does not
remember, passed on by them (`duplicate_node`).  It notes that in its data-dir, and at its next start it begins as one
that lost its disk (`startup_checks.open_store`, decision 47).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog

from quadlog.core.membership.incarnations import CHANCE_BYTES, CLOCK_BYTES, just_after
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

log = structlog.get_logger()

MARK: Final = "superseded"
"""File in a master's data-dir with the incarnation by which it is superseded, in hex."""
EVERY_MS: Final = 5_000.0
"""Milliseconds between two requests, while this master is not let in."""
TIMEOUT_S: Final = 2.0
LAST: Final = 0xFF
"""First byte of an invalid incarnation: it would be of the year 10889 or later, and have no successor."""


def marked(data_dir: Path) -> bytes | None:
    """Return the incarnation by which this master is superseded; None if it is not known to be."""
    try:
        return bytes.fromhex((data_dir / MARK).read_text())
    except (FileNotFoundError, ValueError):
        return None


def unmark(data_dir: Path) -> None:
    """Remove the mark, once an incarnation that is not superseded has begun."""
    (data_dir / MARK).unlink(missing_ok=True)


class Superseded:
    """Check whether peers still count this master.  `tick` runs in the node's thread, the rest in the server's loop."""

    def __init__(
        self,
        node: str,
        incarnation: bytes,
        urls: Mapping[str, str],
        *,
        data_dir: Path,
        soon: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        failed: Callable[[str], None],
    ) -> None:
        """Prepare; no peer was asked yet.

        `urls` of masters of other data centres; `data_dir` has the mark; `soon` runs a coroutine in the server's loop;
        `failed` ends the process with a reason.
        """
        self._node, self._incarnation, self._urls = node, incarnation, urls
        self._data_dir, self._soon, self._failed = data_dir, soon, failed
        self._asked_at = float("-inf")

    def tick(self, moment: float, *, is_outside: bool) -> None:
        """Ask the peers now and then, while this master wants to be let in and is not."""
        if is_outside and moment - self._asked_at >= EVERY_MS:
            self._asked_at = moment
            self._soon(self._ask)

    async def _ask(self) -> None:
        async with new_client(httpx.Timeout(TIMEOUT_S)) as client:
            for peer, url in self._urls.items():
                try:
                    status = (await client.get(f"{url}/cluster/status")).json()
                except (httpx.HTTPError, ValueError) as error:
                    log.debug("peer_request_failed", peer=peer, reason=str(error))
                    continue
                if (known := known_to(status, self._node)) is not None and known > self._incarnation:
                    self._end(peer, known)
                    return

    def note(self, known: bytes | None = None) -> None:
        """Have the next start begin with a new store; `known`: a later incarnation that is known elsewhere."""
        making = self._data_dir / f"{MARK}.new"
        making.write_text((known or just_after(self._incarnation)).hex())
        making.replace(self._data_dir / MARK)

    def _end(self, peer: str, known: bytes) -> None:
        self.note(known)
        self._failed(
            f"{peer} does not count what {self._node} said as {self._incarnation.hex()}: its disk and its topics are an"
            " older copy, or another process was this master. Nothing more is said under this incarnation. Start it"
            " again: it begins as one that lost its disk, or names the topics that have to be rebuilt first"
        )


def known_to(status: Any, node: str) -> bytes | None:  # noqa: ANN401 - JSON
    """Return the newest incarnation of a master in a peer's `/cluster/status`, or None.

    >>> known_to({"peers": [{"id": "m2"}, {"id": "m1", "incarnation": "01" * 16}]}, "m1") == bytes([1]) * 16
    True
    >>> known_to([], "m1"), known_to({"peers": [{"id": "m1", "incarnation": "ff" * 16}]}, "m1")
    (None, None)
    """
    try:
        [found] = [peer["incarnation"] for peer in status["peers"] if peer["id"] == node]
        known = bytes.fromhex(found)
    except (KeyError, TypeError, ValueError):
        return None
    is_one = len(known) == CLOCK_BYTES + CHANCE_BYTES and known[0] < LAST
    return known if is_one else None
