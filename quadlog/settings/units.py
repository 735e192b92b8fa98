"""Units of what is counted in bytes."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
