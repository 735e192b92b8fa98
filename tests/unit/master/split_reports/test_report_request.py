"""What a master and the process that makes reports tell each other arrives as it was sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadlog.master.split_reports.report_request import EndedSide, ReportOutcome, ReportRequest
from quadlog.settings.kafka_security import KafkaSecuritySettings

SIDE = EndedSide("dc3-m1", "dc3", 1_000, 7)


def again(request: ReportRequest) -> ReportRequest:
    return ReportRequest.model_validate_json(request.model_dump_json())


def test_a_request_has_all_logins() -> None:
    one = KafkaSecuritySettings(
        kafka_security_protocol="SASL_PLAINTEXT",  # type: ignore[arg-type]
        kafka_sasl_mechanism="PLAIN",  # type: ignore[arg-type]
        kafka_sasl_username="dc1",
        kafka_sasl_password="secret",  # type: ignore[arg-type]
    ).credentials()
    request = ReportRequest(
        directory=Path("/data/splits"),
        repository="main",
        kafkas={"dc1": "k1:9092", "dc3": "k3:9092"},
        credentials={"k1:9092": one, "k3:9092": KafkaSecuritySettings().credentials()},
        archive=None,
        spark_master="local[2]",
        spark_memory=512,
        scratch=Path("/data/splits/.spark"),
        sides=(SIDE, SIDE._replace(node="dc3-m2")),
        urgent=(SIDE,),
        known=("7-0a",),
    )
    assert again(request) == request
    assert again(request).credentials["k1:9092"].librdkafka() == one.librdkafka()
    assert "secret" not in repr(request)


def test_an_outcome_is_one_line() -> None:
    outcome = ReportOutcome(made=("7-0a",), missing=((SIDE, "a\nreason"),), failed=((SIDE, "other"),))
    assert "\n" not in outcome.model_dump_json()
    assert ReportOutcome.model_validate_json(outcome.model_dump_json()) == outcome
    failed = outcome.model_copy(update={"error": "SetupError: Kafka needs Java"})
    assert ReportOutcome.model_validate_json(failed.model_dump_json()) == failed


@pytest.mark.parametrize("text", ["", "words", "7", "[]", '{"made": [], "missing": [1], "failed": []}'])
def test_anything_else_is_no_outcome(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        ReportOutcome.model_validate_json(text)
