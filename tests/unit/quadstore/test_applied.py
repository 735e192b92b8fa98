"""What a store says of itself: it is read again whoever wrote it."""

from __future__ import annotations

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


def test_behind_an_effect_it_hears_on_behind_its_records() -> None:
    effect = effect_of(7, b"c" * 32)
    point = LogPosition(7, b"c" * 32)
    in_effects = InEffects(9, (3, 5), 2)
    applied = Applied.after(effect, InAgreed(8, point, 2), in_effects)
    assert (applied.in_agreed, applied.in_effects, applied.heard) == (InAgreed(8, point, 2), in_effects, None)
    ahead = InAgreed(20, LogPosition(12, b"d" * 32), 2)
    assert Applied.after(effect, ahead, in_effects).in_agreed == ahead
