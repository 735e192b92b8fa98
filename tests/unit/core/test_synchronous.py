"""Marks of digests, and formulas of a quorum."""

from __future__ import annotations

import pytest

from quadlog.core.model import LogPosition, Pair, TransactionKind, hash_of
from quadlog.core.quorum import MOST_CENTRES, checked, quorum_of
from quadlog.core.synchronous import (
    COMMIT_MODE,
    CommitMode,
    Decision,
    decision_in,
    decision_on,
    is_synchronous,
    marked,
)

POINT = LogPosition(2**40 + 7, hash_of(b"an entry"))


@pytest.mark.parametrize("kind", [TransactionKind.COMMIT, TransactionKind.ROLLBACK])
def test_a_decision_is_in_its_digest(kind: TransactionKind) -> None:
    decision = decision_on(kind, POINT)
    transaction_id, digest = decision.key
    assert (len(transaction_id), len(digest)) == (16, 32)
    assert decision_in(digest) == decision == Decision(kind, POINT.index, POINT.chain[:16])
    assert decision.transaction.key == decision.key
    assert not is_synchronous(Pair(1, transaction_id, digest))
    assert decision.transaction.options == {"target": f"{POINT.index}:{POINT.chain.hex()[:32]}"}


def test_each_decision_has_an_id_of_its_own() -> None:
    other = LogPosition(POINT.index, hash_of(b"another history"))
    kinds = (TransactionKind.COMMIT, TransactionKind.ROLLBACK)
    decisions = [decision_on(kind, at) for kind in kinds for at in (POINT, other)]
    assert len({one.key[0] for one in decisions}) == 4


def test_only_synchronous_transactions_are_marked() -> None:
    digest = hash_of(b"a payload")
    assert marked(digest, {}) == marked(digest, {COMMIT_MODE: CommitMode.LAZY}) == digest
    sync = marked(digest, {COMMIT_MODE: CommitMode.SYNC})
    assert is_synchronous(Pair(1, bytes(16), sync))
    assert (len(sync), sync[8:]) == (32, digest[:24])
    assert not is_synchronous(Pair(1, bytes(16), digest))
    assert decision_in(sync) is decision_in(digest) is decision_in(bytes(32)) is None


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("N/2 + 1", [1, 2, 2, 3, 3]),
        ("N", [1, 2, 3, 4, 5]),
        ("2", [2, 2, 2, 2, 2]),
        ("(N + 1)*2/3", [1, 2, 2, 3, 4]),
        ("N - N/2", [1, 1, 1, 2, 2]),
    ],
)
def test_a_formula_is_rounded_down(formula: str, values: list[int]) -> None:
    try:
        assert [quorum_of(checked(formula), centres) for centres in range(1, 6)] == values
    except ValueError:
        assert formula == "N - N/2", "0.5 of one data centre is none"


def test_a_formula_has_a_value_for_each_number_of_data_centres() -> None:
    with pytest.raises(ValueError, match=f"with N = {MOST_CENTRES} this one is 0"):
        checked(f"{MOST_CENTRES} - N")
    with pytest.raises(ValueError, match="with N = 7 this one divides by 0"):
        checked("1/(7 - N) + 100")
