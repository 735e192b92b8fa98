"""Duplicate nodes: other processes that act as this master, by their settings or by a copy of its disk.

Two processes that post under one id make promises that neither of them keeps.  A master that is superseded,
or reads a post that only it could have written, publishes nothing more and ends; when it is started again, it
begins as one that lost its disk (`startup_checks.open_store`).

A master that is alone in its data centre does not read its own posts: it detects by their offsets that
another process writes to the topic, and then reads the records between.  Any other master reads them anyway.

A record may be repeated by a broker, a mirror or a tool.  A repeated post has the bytes of the post that this
master wrote under that sequence; a post of a duplicate has other bytes (decision 47).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import structlog

from consumers import rounds
from quadlog.anchors import Gap
from quadlog.errors import DuplicateNode, TopicLost
from quadlog.master.topics.foreign_records import understood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.anchors import Anchor
    from quadlog.core.model import HardState, Post
    from quadlog.ports import Record

log = structlog.get_logger()

REMEMBERED: Final = 10_000
"""Number of own posts whose bytes are remembered, as hashes of 8 bytes.

These are minutes of a busy master, or hours of an idle one.  A duplicate begins with the same disk, so it writes
the same sequences at about the same time; an older post counts as a repetition.
"""


class DuplicateNodeDetector:
    """Detects duplicates of this node.

    `check_may_post`, `on_post` and `learn` must be called on the node's thread, `acked` on the outlet's,
    `check_own_records` on any.
    """

    def __init__(
        self,
        node: str,
        incarnation: bytes,
        sequence: int,
        *,
        read: Callable[[int, int], None],
        topic: str = "",
    ) -> None:
        """Start without having detected a duplicate.

        `sequence`: of the last post that this master may have written before this start.  `read` reads the own rounds
        between two offsets, and calls `check_own_records`; `topic` is their topic, for the error.
        """
        self._topic: Final = topic
        self._node, self._incarnation = node, incarnation
        self._said = sequence
        self._read = read
        self._next: int | None = None
        self._digests: dict[int, bytes] = {}
        """Hashes of the newest own posts, by sequence."""
        self._gap: Gap | None = None
        self.anchor: Anchor | None = None
        """The last record of the own rounds that was acknowledged here."""
        self._older: set[bytes] = set()
        """Older incarnations that still post and were reported in the log file."""
        self._why: str | None = None

    def check_may_post(self, post: Post) -> None:
        """Check that this master may post.

        Raises:
            DuplicateNode: it must not post any more.
            TopicLost: earlier posts are no longer in the topic.

        """
        if self._gap is not None:
            raise TopicLost(f"{self._topic} {self._gap}")
        if self._why is not None:
            raise DuplicateNode(self._node, self._why)
        self._said = post.sequence

    def said(self, sequence: int, value: bytes) -> None:
        """Remember the bytes of a post that this master writes."""
        self._digests[sequence] = _digest(value)
        self._digests.pop(sequence - REMEMBERED, None)

    def acked(self, anchor: Anchor) -> None:
        """Note that an own post was acknowledged; own posts are acknowledged in order, others may be between them."""
        offset, self.anchor = anchor.offset, anchor
        expected, self._next = self._next, offset + 1
        if expected is not None and offset < expected:
            self._gap = Gap(read=expected, begins=0, ends=offset)
        if expected is not None and offset > expected:
            self._read(expected, offset)

    def check_own_records(self, records: Iterable[Record]) -> None:
        """Check records of the own rounds that this process did not write."""
        for record, post in understood(records, rounds.hear):
            if post.node == self._node:
                self._compare(post, record.value)
                if post.incarnation < self._incarnation and post.incarnation not in self._older:
                    self._older.add(post.incarnation)
                    log.warning("older_incarnation_detected", incarnation=post.incarnation.hex())

    def on_post(self, post: Post, value: bytes) -> None:
        """Check a post from any topic: own posts return from the own topic, and are passed on by other masters."""
        if post.node == self._node:
            self._compare(post, value)

    def learn(self, standing: HardState) -> None:
        """Check the incarnations of a standing for a later one of this master."""
        for name, incarnation in standing.newest:
            if name == self._node and incarnation > self._incarnation:
                self._why = "the others heard a later incarnation of it"

    def _compare(self, post: Post, value: bytes) -> None:
        if post.incarnation > self._incarnation:
            self._why = f"a later incarnation ({post.incarnation.hex()}) posts"
        elif post.incarnation == self._incarnation and not self._is_mine(post.sequence, value):
            self._why = f"another process with a copy of its disk said post {post.sequence}"

    def _is_mine(self, sequence: int, value: bytes) -> bool:
        """Return whether this process, or its predecessor on this disk, wrote that post."""
        if sequence > self._said:
            return False
        known = self._digests.get(sequence)
        return known is None or known == _digest(value)


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=8).digest()
