"""Up to where the log may be shortened: never past what anybody needs who cannot take a copy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quadlog.core.limits import SLACK, LogLimits, Needs, cutoff

INDEX = st.integers(0, 10_000)
SIZE = st.none() | st.integers(1, 12_000)
WHO = st.dictionaries(st.sampled_from(["a", "b", "c"]), INDEX, max_size=3)


@given(
    INDEX, INDEX, SIZE, SIZE, WHO, WHO.map(lambda found: {f"m{who}": index for who, index in found.items()})
)
def test_nobody_loses_what_it_needs(  # noqa: PLR0917 - all that there is to it
    last: int, older: int, size: int | None, hard: int | None, workers: dict[str, int], others: dict[str, int]
) -> None:
    found = cutoff(last, older, LogLimits(size=size, hard_size=hard), Needs(workers, others))
    beyond = max(older, last - size if size is not None else 0)
    assert 0 <= found.index <= max(0, beyond)
    assert all(found.index <= max(0, index - SLACK) for index in others.values())
    late = [who for who, index in workers.items() if found.index > max(0, index - SLACK)]
    assert not late or (hard is not None and found.index <= last - hard)
    if not found.kept_by:
        assert found.index == max(0, beyond)


def test_no_limit_is_none() -> None:
    assert not LogLimits().is_any
    assert not LogLimits(hard_size=1).is_any, "of those that are waited for there has to be another one"
    assert LogLimits(size=1).is_any
    assert LogLimits(depth_s=1.0).is_any
