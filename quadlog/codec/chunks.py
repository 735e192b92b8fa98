"""How large a record may be."""

from __future__ import annotations

from typing import Final

CHUNK: Final = 512 * 1024
"""Bytes of body or lines in one record: fits Kafka's default limit of 1 MB with room to spare."""
