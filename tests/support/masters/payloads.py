"""Payloads as a topic has them."""

from __future__ import annotations

from quadlog.core.model import Payload, Transaction, hash_of


def payload(number: int, *, dc: str = "dc1", size: int = 10) -> Payload:
    return Payload(
        transaction=Transaction(id=number.to_bytes(16, "big"), digest=hash_of(number.to_bytes(8, "big"))),
        origin=f"{dc}-m1",
        origin_dc=dc,
        created=number,
        media_type="text",
        body=b"x" * size,
    )
