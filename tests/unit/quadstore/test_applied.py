"""What a store says of itself: it is read again whoever wrote it."""

from __future__ import annotations

from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from quadlog.core.model import LogPosition
from quadlog.quadstore.applied import Applied, InAgreed, InEffects
from tests.support.masters.effects import effect_of

numbers = st.integers(0, 2**40)
hashes = st.binary(min_size=32, max_size=32)


@given(
    st.builds(
        Applied,
        index=numbers,
        chain=hashes,
        effects_chain=hashes,
        signature=st.integers(0, 2**256 - 1),
        quads=numbers,
        agreed_offset=numbers,
        effects_offset=numbers,
        term=hashes,
        attempt=numbers,
        handover=numbers,
        handover_epoch=numbers,
        rewound=numbers,
        cut=numbers,
        epoch=numbers,
        heard=st.none() | st.builds(LogPosition, numbers, hashes),
    )
)
def test_it_comes_back_as_it_was(applied: Applied) -> None:
    assert Applied.decode(applied.encode()) == applied


def test_stores_of_earlier_versions_are_of_the_first_view() -> None:
    texts = [b64encode(bytes([n]) * 32).decode() for n in range(4)]
    before_handovers = Applied.decode(",".join(("7", "70", "700", "7000", "3", *texts)))
    assert before_handovers == Applied(
        index=7,
        quads=70,
        agreed_offset=700,
        effects_offset=7000,
        attempt=3,
        signature=0,
        chain=bytes([1]) * 32,
        effects_chain=bytes([2]) * 32,
        term=bytes([3]) * 32,
    )
    before_views = Applied.decode(",".join(("7", "70", "700", "7000", "3", "5", *texts)))
    assert before_views.in_effects == InEffects(7000, (1, 5), 1, 1)
    assert before_views.in_agreed == InAgreed(700, LogPosition(7, bytes([1]) * 32), 1)


def test_behind_an_effect_it_hears_on_behind_its_records() -> None:
    effect = effect_of(7, b"c" * 32)
    point = LogPosition(7, b"c" * 32)
    in_effects = InEffects(9, (3, 5), 2)
    applied = Applied.after(effect, InAgreed(8, point, 2), in_effects)
    assert (applied.in_agreed, applied.in_effects, applied.heard) == (InAgreed(8, point, 2), in_effects, None)
    ahead = InAgreed(20, LogPosition(12, b"d" * 32), 2)
    assert Applied.after(effect, ahead, in_effects).in_agreed == ahead


def test_stores_of_earlier_versions_await_the_cut_of_their_rewinds_epoch() -> None:
    numbers, texts = ("7", "70", "700", "7000", "3", "0", "0", "5", "4"), [b64encode(b"x" * 32).decode()] * 4
    stayed = Applied.decode(",".join((*numbers, *texts)))
    gone_back = Applied.decode(",".join((*numbers, "9", *texts, b64encode(b"y" * 32).decode())))
    assert [(one.rewound, one.epoch, one.cut) for one in (stayed, gone_back)] == [(5, 4, 5)] * 2
    assert (stayed.heard, gone_back.heard) == (None, LogPosition(9, b"y" * 32))
