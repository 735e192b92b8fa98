"""Controls as a client sets them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.clusters.cluster import (
    HTTP,
    Cluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx


ASK = "application/sparql-query"


def put(
    cluster: Cluster, control: str, text: str, kind: str = ASK, *, master: int = 0, **headers: str
) -> httpx.Response:
    said = {"Content-Type": kind} | {key.replace("_", "-"): value for key, value in headers.items()}
    return HTTP.put(f"{cluster.masters[master]}/controls/{control}", content=text.encode(), headers=said)


def delete(cluster: Cluster, control: str, *, master: int = 0) -> httpx.Response:
    return HTTP.delete(f"{cluster.masters[master]}/controls/{control}")


def listed(cluster: Cluster, *, master: int = 0) -> dict[str, dict[str, Any]]:
    answer = HTTP.get(f"{cluster.masters[master]}/controls")
    assert answer.status_code == 200, answer.text
    return {control["name"]: control for control in answer.json()["controls"]}


@contextmanager
def control(cluster: Cluster, name: str, text: str, kind: str = ASK) -> Iterator[httpx.Response]:
    """It holds within the block, and is gone afterwards."""
    answer = put(cluster, name, text, kind)
    assert answer.status_code == 204, answer.text
    try:
        yield answer
    finally:
        assert delete(cluster, name, master=2).status_code == 204
