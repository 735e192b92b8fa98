"""What it takes that the effect record of a synchronous transaction is its decision."""

from __future__ import annotations

import pytest

from tests.support.agreement.effect_carrier import B1, B2, EffectCarrier, Rule
from tests.support.agreement.sim import limits_of

TURNS = 20032
"""m3 rolls back in a view that m2 has left; m3 loses its disk, and m2 commits in a majority without m3."""


def test_the_effect_of_one_data_centre_is_no_decision() -> None:
    run = EffectCarrier(TURNS, rules=B1, limits=limits_of(TURNS))
    with pytest.raises(AssertionError, match=r"m3 shows (t:\w+) ROLLED_BACK.*m2 shows \1 COMMITTED"):
        run.run()


@pytest.mark.parametrize("seed", [TURNS, 22, 31, 815])
def test_what_a_majority_has_stays(seed: int) -> None:
    run = EffectCarrier(seed, rules=B2, limits=limits_of(seed))
    run.run()
    assert run.shown


@pytest.mark.parametrize(("rule", "seed"), [(Rule.LOG_FIRST, 91), (Rule.CHANGES_WAIT, 20167)])
def test_what_a_majority_has_is_lost_without_a_rule(rule: Rule, seed: int) -> None:
    run = EffectCarrier(seed, rules=B2 & ~rule, limits=limits_of(seed))
    with pytest.raises(AssertionError, match=r"shows t:\w+ (COMMITTED|ROLLED_BACK), which \d+ decided"):
        run.run()
