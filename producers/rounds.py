"""Producer of posts: this master writes one each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.anchors import Anchor
from quadlog.codec.envelope import RELAYED, headers
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.model import Post
    from quadlog.ports import Headers, Outlet


class RoundsProducer:
    """Producer of posts."""

    def __init__(self, outlet: Outlet, topic: str, *, acked: Callable[[Anchor], None] | None = None) -> None:
        """Write to `topic`, the local rounds topic; `acked` receives each record's anchor, on the outlet's thread."""
        self._outlet, self._topic, self._acked = outlet, topic, acked

    def publish(self, post: Post, *, at: int) -> bytes:
        """Write one post, and return its bytes.  Its promises must be durable before (see `Ready`)."""
        envelope = headers(
            event=f"{post.incarnation.hex()}/{post.sequence}", source=post.node, kind="quadlog.post", at=at
        )
        value = codec.encode(post)
        self._produce(post.node.encode(), value, envelope)
        return value

    def pass_on(self, record: Record, dc: str) -> None:
        """Write an unchanged post of a master of `dc`, for masters that do not receive the posts of `dc`."""
        self._produce(record.key, record.value, [*record.headers, (RELAYED, dc.encode())])

    def _produce(self, key: bytes, value: bytes, envelope: Headers) -> None:
        topic, acked = self._topic, self._acked

        def stands(offset: int) -> None:
            if acked is not None:
                acked(Anchor.of(Record(topic, offset, key, value, envelope)))

        self._outlet.produce(
            topic, key=key, values=[value], headers=envelope, acked=stands if acked else None
        )
