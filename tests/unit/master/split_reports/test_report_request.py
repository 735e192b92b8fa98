"""What a master and the process that makes reports tell each other arrives as it was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.master.split_reports.report_request import EndedSide, ReportOutcome, ReportRequest
from quadlog.settings.kafka_security import KafkaSecuritySettings

SIDE = EndedSide("dc3-m1", "dc3", 1_000, 7)


def test_a_request_has_all_logins() -> None:
    one = KafkaSecuritySettings(
        kafka_security_protocol="SASL_PLAINTEXT",  # type: ignore[arg-type]
        kafka_sasl_mechanism="PLAIN",  # type: ignore[arg-type]
        kafka_sasl_username="dc1",
        kafka_sasl_password="secret",  # type: ignore[arg-type]
    ).credentials()
    request = ReportRequest(
        directory="/data/splits",
        repository="main",
        kafkas={"dc1": "k1:9092", "dc3": "k3:9092"},
        credentials={"k1:9092": one, "k3:9092": KafkaSecuritySettings().credentials()},
        archive=None,
        spark_master="local[2]",
        spark_memory=512,
        scratch="/data/splits/.spark",
        sides=(SIDE, SIDE._replace(node="dc3-m2")),
        urgent=(SIDE,),
        known=("7-0a",),
    )
    assert ReportRequest.from_json(request.to_json()) == request
    assert ReportRequest.from_json(request.to_json()).credentials["k1:9092"].librdkafka() == one.librdkafka()
    assert "secret" not in repr(request)


def test_an_outcome_is_one_line() -> None:
    outcome = ReportOutcome(made=("7-0a",), missing=((SIDE, "a\nreason"),), failed=((SIDE, "other"),))
    assert "\n" not in outcome.to_json()
    assert ReportOutcome.from_json(outcome.to_json()) == outcome
    failed = replace(outcome, error="SetupError: Kafka needs Java")
    assert ReportOutcome.from_json(failed.to_json()) == failed


@pytest.mark.parametrize("text", ["", "words", "7", "[]", "{}", '{"made": [], "missing": [1], "failed": []}'])
def test_anything_else_is_no_outcome(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        ReportOutcome.from_json(text)
