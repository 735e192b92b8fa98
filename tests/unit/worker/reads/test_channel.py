"""Frames arrive as they were sent, however they are cut on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quadlog.worker.reads.channel import Channel
from quadlog.worker.reads.frames import FrameKind, framed

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=40)), max_size=12)


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_frames_are_found_in_any_pieces(frames: list[tuple[FrameKind, bytes]], sizes: list[int]) -> None:
    heard: list[tuple[FrameKind, bytes]] = []
    channel = Channel(lambda kind, body: heard.append((kind, body)), lambda: None)
    data, number = b"".join(framed(kind, body) for kind, body in frames), 0
    while data:
        size = sizes[number % len(sizes)]
        channel.data_received(data[:size])
        data, number = data[size:], number + 1
    assert heard == frames


def test_a_frame_is_heard_with_its_last_byte() -> None:
    heard: list[tuple[FrameKind, bytes]] = []
    channel = Channel(lambda kind, body: heard.append((kind, body)), lambda: None)
    frame = framed(FrameKind.PIECE, b"x" * 100_000)
    channel.data_received(frame[:-1])
    assert not heard
    channel.data_received(frame[-1:] + framed(FrameKind.END, b""))
    assert heard == [(FrameKind.PIECE, b"x" * 100_000), (FrameKind.END, b"")]
