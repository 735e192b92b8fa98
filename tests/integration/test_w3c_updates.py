"""All of the W3C's tests of SPARQL 1.1 Update, with one worker in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyoxigraph as ox
import pytest
from pyoxigraph import Store

from quadlog.core.records import Outcome
from quadlog.core.sparql.update import parse_update
from quadlog.errors import SyntaxRefused, UserError
from tests.support.w3c import Suite
from tests.support.workers.loads import wait_for_effects
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.updates import same, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    suite = Suite()
    yield suite
    suite.close()


def test_evaluation(tmp_path: Path, suite: Suite) -> None:
    log, twin = Log(), Store()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    wrong: dict[str, object] = {}
    for test in suite.evaluations:
        for text in (test.preparation, test.text):
            index = log.agree(text).index
            worker.hear(TOPICS.agreed)
            wait_for_effects(worker, index)
            worker.catch_up()
            twin.update(text)
        effect = log.effects()[-1]
        lines = [line for line in state_of(worker)[0] if not line.startswith("#")]
        state = ox.parse("\n".join(lines), ox.RdfFormat.N_QUADS)
        if effect.outcome is not Outcome.APPLIED or not test.is_met_by(state):
            wrong[test.name] = effect.reason or lines
        same(worker, twin)
    print(f"{len(suite.evaluations) - len(wrong)} of {len(suite.evaluations)} as the W3C has them")
    assert not wrong
    assert len(suite.evaluations) == 94


def test_syntax(suite: Suite) -> None:
    wrong: dict[str, object] = {}
    for test in suite.syntax:
        try:
            parse_update(test.text, tx_id=b"tx")
        except SyntaxRefused as error:
            if test.is_update:
                wrong[test.name] = error
        except UserError as error:
            wrong[test.name] = error
        else:
            if not test.is_update:
                wrong[test.name] = "accepted"
    good = sum(test.is_update for test in suite.syntax)
    print(f"{len(suite.syntax) - len(wrong)} of {len(suite.syntax)} are judged as the W3C does")
    assert not wrong
    assert (good, len(suite.syntax) - good) == (42, 13)
