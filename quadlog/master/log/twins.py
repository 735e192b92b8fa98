"""Twins: other processes that are this master, by their settings or by a copy of its disk.

Two that post under one id promise what neither of them keeps.  Who is superseded, or meets one that says what only it
could say, says nothing more and ends; started again, it comes back as one that lost its disk (`own.open_store`).

A master that is alone in its data centre does not read its own posts: it sees by their offsets that somebody else
writes there, and looks.  Any other one reads them anyway.

A record may be repeated, by a broker, a mirror or a tool.  A repeated post has the bytes of the post that this master
said under that sequence; a twin's has others (decision 47).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import structlog

from consumers import rounds
from quadlog.anchors import Gap
from quadlog.errors import DuplicateNode, TopicLost
from quadlog.master.topics.foreign import understood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.anchors import Anchor
    from quadlog.core.model import Post, Standing
    from quadlog.ports import Record

log = structlog.get_logger()

REMEMBERED: Final = 10_000
"""Own posts whose bytes are remembered, by 8 bytes of a hash: minutes of a busy master, hours of an idle one.  A twin
begins with the same disk, so it says the same sequences at about the same time; what is older is taken for repeated."""


class Twins:
    """`say`, `hear` and `learn` belong to the node's thread, `acked` to the outlet's, `look` to any."""

    def __init__(
        self,
        node: str,
        incarnation: bytes,
        sequence: int,
        *,
        read: Callable[[int, int], None],
        topic: str = "",
    ) -> None:
        """Begin.

        Args:
            node: this master.
            incarnation: its own.
            sequence: of the last post that its predecessor on this disk may have said.
            read: has the own rounds from one offset on and before another one read, and `look` called.
            topic: the own rounds, for the error.

        """
        self._topic: Final = topic
        self._node, self._incarnation = node, incarnation
        self._said = sequence
        self._read = read
        self._next: int | None = None
        self._digests: dict[int, bytes] = {}
        """Of the own posts that were said last, by sequence."""
        self._gap: Gap | None = None
        self.anchor: Anchor | None = None
        """The last record of the own rounds that was acknowledged here."""
        self._older: set[bytes] = set()
        """Incarnations that still post, and were told of in the log."""
        self._why: str | None = None

    def say(self, post: Post) -> None:
        """This master is about to post.

        Raises:
            DuplicateNode: it must not any more.
            TopicLost: what it said before is not there any more.

        """
        if self._gap is not None:
            raise TopicLost(f"{self._topic} {self._gap}")
        if self._why is not None:
            raise DuplicateNode(self._node, self._why)
        self._said = post.sequence

    def said(self, sequence: int, value: bytes) -> None:
        """The bytes of a post that this master says."""
        self._digests[sequence] = _digest(value)
        self._digests.pop(sequence - REMEMBERED, None)

    def acked(self, anchor: Anchor) -> None:
        """What was said stands there, in the order in which it was said; with what others say there in between."""
        offset, self.anchor = anchor.offset, anchor
        expected, self._next = self._next, offset + 1
        if expected is not None and offset < expected:
            self._gap = Gap(read=expected, begins=0, ends=offset)
        if expected is not None and offset > expected:
            self._read(expected, offset)

    def look(self, records: Iterable[Record]) -> None:
        """Records of the own rounds that this process did not say."""
        for record, post in understood(records, rounds.hear):
            if post.node == self._node:
                self._compare(post, record.value)
                if post.incarnation < self._incarnation and post.incarnation not in self._older:
                    self._older.add(post.incarnation)
                    log.warning("older_incarnation_detected", incarnation=post.incarnation.hex())

    def hear(self, post: Post, value: bytes) -> None:
        """Any post and its bytes, from any topic: own ones come back from the own topic, and passed on by others."""
        if post.node == self._node:
            self._compare(post, value)

    def learn(self, standing: Standing) -> None:
        """What is known of incarnations."""
        for name, incarnation in standing.newest:
            if name == self._node and incarnation > self._incarnation:
                self._why = "the others heard a later incarnation of it"

    def _compare(self, post: Post, value: bytes) -> None:
        if post.incarnation > self._incarnation:
            self._why = f"a later incarnation ({post.incarnation.hex()}) posts"
        elif post.incarnation == self._incarnation and not self._is_mine(post.sequence, value):
            self._why = f"another process with a copy of its disk said post {post.sequence}"

    def _is_mine(self, sequence: int, value: bytes) -> bool:
        """Whether this process said that, or one before it."""
        if sequence > self._said:
            return False
        known = self._digests.get(sequence)
        return known is None or known == _digest(value)


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=8).digest()
