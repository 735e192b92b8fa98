"""Real clusters."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """A socket that a module leaves open fails that module, not the test that the collector happens to run in later."""
    yield
    gc.collect()
