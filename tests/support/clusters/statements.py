"""Requests to `/repositories/…/statements`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.support.clusters.cluster import HTTP, Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

Parameters: TypeAlias = "Mapping[str, str | Sequence[str]]"


def send(
    cluster: Cluster,
    method: str,
    body: str | bytes = b"",
    media_type: str = "",
    *,
    master: int = 0,
    given: Parameters | None = None,
    **headers: str,
) -> httpx.Response:
    """One request at one master."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    sent |= {"Content-Type": media_type} if media_type else {}
    url = f"{cluster.masters[master]}/repositories/{cluster.lab.repository}/statements"
    return HTTP.request(method, url, content=body, headers=sent, params=given)
