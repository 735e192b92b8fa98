"""What several of these tests begin with."""

from __future__ import annotations

import pytest

from tests.integration.rehearsal import Log


@pytest.fixture
def log() -> Log:
    """Topics as lists, without anything in them."""
    return Log()
