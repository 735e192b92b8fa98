"""Report of a split as one HTML file, which needs no network and runs no code but its own.

Everything but the rows of the two long tables is markup.  The rows are JSON in the file, and `report.js` shows a page
of them at a time.  The policy in the head names the hashes of style and script, so that no other one can run.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from quadlog.splits import page
from quadlog.splits.page import sections
from quadlog.splits.page.elements import element, markup, visible
from quadlog.splits.page.headline import headline
from quadlog.splits.page.tables import disputed_table, update_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from quadlog.splits.page.tables import RowTable

_POLICY: Final = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'"
)


def html_of(report: Mapping[str, Any]) -> str:
    """Return a report, as `docs/split-report.schema.json` describes it, as a self-contained HTML document."""
    style, script = _text("report.css"), _text("report.js")
    tables = [update_table(report), disputed_table(report)]
    parts = [
        sections.sides(report),
        sections.reasons(report),
        sections.classes(report),
        sections.answers(report),
        sections.ended(report),
        *(table.section() for table in tables if table.total),
        sections.workers(report),
    ]
    shown = [part for part in parts if part is not None]
    document = element(
        "html",
        _head(report, style, script),
        element(
            "body",
            headline(report),
            _contents(shown),
            element("main", *shown),
            *(_data(table) for table in tables if table.total),
            element("script", script),
        ),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{markup(document)}\n"


def _text(name: str) -> str:
    return resources.files(page).joinpath(name).read_text(encoding="utf-8")


def _head(report: Mapping[str, Any], style: str, script: str) -> Element:
    policy = _POLICY.format(style=_hash(style), script=_hash(script))
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Split of {report['repository']}: {report['kind']} {report['plan'][:12]}"),
        element("style", style),
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _contents(parts: list[Element]) -> Element:
    """Return links to the sections, which begin with their headings."""
    links = [element("li", element("a", part[0].text or "", href=f"#{part.get('id')}")) for part in parts]
    return element("nav", element("ul", *links), aria_label="Sections")


def _data(table: RowTable) -> Element:
    rows = [[visible(cell) if isinstance(cell, str) else cell for cell in row] for row in table.rows]
    # Text of a script is not escaped by HTML: without `<` it cannot end the script, nor begin a comment.
    text = json.dumps(rows, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", text, type="application/json", id=f"{table.name}-rows")
