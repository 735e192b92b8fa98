"""Consumer of other masters' posts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.model import Post
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from quadlog.ports import Record


def hear(record: Record) -> Post:
    """Return the post in a record.

    Raises:
        ForeignRecord: the record holds no post, or a post that contradicts itself.

    """
    post = codec.decode(record.value)
    if not isinstance(post, Post):
        message = f"{record.topic} at {record.offset} holds no post; does another program write there?"
        raise ForeignRecord(message)
    if any(a >= b for a, b in zip(post.queue, post.queue[1:], strict=False)):
        message = f"{record.topic} at {record.offset}: the queue that {post.node} posts is not in order"
        raise ForeignRecord(message)
    if post.base_sequence is not None and post.base_sequence >= post.sequence:
        raise ForeignRecord(
            f"{record.topic} at {record.offset}: {post.node}'s post {post.sequence} is a delta on a later one"
        )
    return post
