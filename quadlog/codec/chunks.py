"""The maximum size of a record."""

from __future__ import annotations

from typing import Final

CHUNK: Final = 512 * 1024
"""Bytes of body or lines in one record: fits well into Kafka's default limit of 1 MB."""
