"""Posts: what this master says each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.envelope import RELAYED, headers

if TYPE_CHECKING:
    from quadlog.core.model import Post
    from quadlog.ports import Acked, Outlet, Record


class RoundsProducer:
    """Says posts."""

    def __init__(self, outlet: Outlet, topic: str, *, acked: Acked | None = None) -> None:
        """`topic`: the own data centre's rounds; `acked` is told where each record stands, on the outlet's thread."""
        self._outlet, self._topic, self._acked = outlet, topic, acked

    def say(self, post: Post, *, at: int) -> bytes:
        """Send one post; returns its bytes.  What it promises has to be durable before (see `Ready`)."""
        envelope = headers(
            event=f"{post.incarnation.hex()}/{post.sequence}", source=post.node, kind="quadlog.post", at=at
        )
        value = codec.encode_post(post)
        self._outlet.produce(
            self._topic, key=post.node.encode(), values=[value], headers=envelope, acked=self._acked
        )
        return value

    def pass_on(self, record: Record, dc: str) -> None:
        """Say a post of another data centre's master as it was said there, for those who do not hear `dc`."""
        self._outlet.produce(
            self._topic,
            key=record.key,
            values=[record.value],
            headers=[*record.headers, (RELAYED, dc.encode())],
            acked=self._acked,
        )
