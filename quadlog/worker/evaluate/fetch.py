"""Fetching of what LOAD names: only from where the operator allows it, up to a size; the caller limits the time.

The same limits apply to SERVICE (`answers.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import httpx

from quadlog.errors import SetupError
from quadlog.rdf.documents import Document, DocumentError

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings

REDIRECTS: Final = 5
"""Redirects, at most: a vocabulary's name leads to its document in one or two.  Each target must be allowed."""

ACCEPT: Final = (
    "application/n-triples, text/turtle, application/rdf+xml;q=0.9, application/trig;q=0.8,"
    " application/n-quads;q=0.8, application/ld+json;q=0.7"
)
_HIDDEN_STEP = re.compile(r"(?i)/(\.|%(25)*2e){1,2}(/|;|%(25)*3b|$)|%(25)*(2f|5c)|\\")
"""A step up in a path that a server may recognise, and that would lead out of what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Limits of LOAD and SERVICE: allowed beginnings of URLs and allowed endpoints, seconds, and bytes."""

    beginnings: tuple[str, ...]
    endpoints: tuple[str, ...]
    seconds: float
    size: int

    @classmethod
    def of(cls, settings: WorkerSettings) -> Self:
        """Return the limits in a worker's settings.

        Raises:
            SetupError: a setting contains an invalid URL.

        """
        return cls(
            beginnings=_urls("load-from", settings.load_from),
            endpoints=_urls("service-endpoints", settings.service_endpoints),
            seconds=settings.load_timeout,
            size=settings.max_transaction_size,
        )

    def check(self, url: httpx.URL) -> None:
        """Raise DocumentError unless this URL may be fetched."""
        text = str(url)
        hidden = _HIDDEN_STEP.search(url.raw_path.decode("ascii").partition("?")[0])
        if hidden or not text.startswith(self.beginnings):
            message = (
                f"load-from of the workers does not allow {text}: it names beginnings of what LOAD may fetch"
            )
            raise DocumentError(message)

    def check_endpoint(self, url: httpx.URL) -> None:
        """Raise DocumentError unless this endpoint may be queried."""
        if str(url) not in self.endpoints:
            message = f"service-endpoints of the workers does not name {url}: it lists whom SERVICE may ask"
            raise DocumentError(message)


def _urls(setting: str, given: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(str(httpx.URL(one)) for one in given)
    except httpx.InvalidURL as error:
        raise SetupError(f"{setting} names what is no URL: {error}") from None


async def fetch(client: httpx.AsyncClient, iri: str, limits: LoadLimits, *, size: int) -> Document:
    """Fetch the document of an IRI, of at most `size` bytes.

    Raises:
        DocumentError: it is not allowed, not available, or too large.

    """
    url, base = url_of(iri), iri
    for _ in range(REDIRECTS + 1):
        limits.check(url)
        # identity: a small answer must not become a large one when it is unpacked.
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity"}
        async with client.stream("GET", url, headers=headers) as answer:
            if answer.next_request is not None:
                url = answer.next_request.url
                base = str(url)
                continue
            if answer.status_code != httpx.codes.OK.value:
                raise DocumentError(f"{url} answered {answer.status_code}")
            body = await body_of(answer, size, limits)
            return Document(body=body, media_type=answer.headers.get("content-type", ""), base=base)
    raise DocumentError(f"more than {REDIRECTS} redirects, the last one to {url}")


def url_of(iri: str) -> httpx.URL:
    """Return an IRI as a URL; raise DocumentError if it is none."""
    try:
        return httpx.URL(iri)
    except httpx.InvalidURL as error:
        raise DocumentError(f"no URL that can be fetched: {error}") from None


async def body_of(answer: httpx.Response, size: int, limits: LoadLimits) -> bytes:
    """Return the body of an answer; raise DocumentError if it has more than `size` bytes."""
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > size:
            message = f"an update may fetch {limits.size} bytes at most (max-transaction-size of the workers)"
            raise DocumentError(message)
    return bytes(body)
