"""What the bench makes of what it measured."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from pyoxigraph import Store

from tests.bench.figures import CATCH_UP_LIMIT_S, Latencies, Run, median_run, percentile
from tests.bench.workload import LISTS, Workload, setup, texts


def run(rate: float, *, catch_up_s: float = 0.1, errors: int = 0) -> Run:
    return Run(
        clients=1,
        updates=round(rate * 10),
        seconds=10,
        latencies=Latencies.of([0.001]),
        errors=Counter({"503 {}": errors} if errors else {}),
        generator_cpu=0.02,
        cpu_ms={},
        threads_ms={},
        catch_up_s=catch_up_s,
    )


@pytest.mark.parametrize(
    ("count", "p50", "p99"), [(1, 1, 1), (2, 1, 2), (100, 50, 99), (101, 51, 100), (1000, 500, 990)]
)
def test_percentiles_are_values_that_were_measured(count: int, p50: int, p99: int) -> None:
    latencies = Latencies.of([number / 1000 for number in range(count, 0, -1)])
    assert (latencies.p50, latencies.p99, latencies.most) == (p50, p99, count)


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(IndexError):
        percentile([], 0.5)


def test_the_median_is_a_run_that_took_place() -> None:
    runs = [run(300), run(100), run(200)]
    assert median_run(runs) is runs[2]
    assert median_run(runs[:2]) is runs[1], "of two the slower one"


def test_what_makes_a_run_doubtful_is_said() -> None:
    assert run(100).doubts == []
    assert run(100, errors=3).doubts == ["3 errors: 503 {}"]
    assert "after the end" in run(100, catch_up_s=CATCH_UP_LIMIT_S + 0.1).doubts[0]


def test_appends_make_lists_longer() -> None:
    store, prepared = Store(), setup(Workload.APPEND, "urn:x:")
    assert prepared is not None
    store.update(prepared)
    for text in islice(texts(Workload.APPEND, "urn:x:"), 2 * LISTS):
        store.update(text)
    assert len(store) == LISTS + 3 * 2 * LISTS
    assert store.query("ASK { <urn:x:list:7/2> <urn:of> <urn:x:list:7> ; <urn:pos> 2 }")
