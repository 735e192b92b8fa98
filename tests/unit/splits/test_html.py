"""The HTML page: its numbers, what it says is cut, and that text of others stays text."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import defaultdict
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from quadlog.splits.html import html_of
from quadlog.splits.plan import UpdateClass
from tests.support.split_reports import branch, disputed, position, report, side, update

HOSTILE = "</script><script>alert(1)</script><!-- \" ' onload=x()> & \n\r\u2028\u202e\x00"
SHOWN = "</script><script>alert(1)</script><!-- \" ' onload=x()> & \n\\u000D\\u2028\\u202E\\u0000"


class Page(HTMLParser):
    """Elements of a page with the names of their attributes, and texts by element, id, or section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.attributes = defaultdict[str, list[str]](list)
        self.texts = defaultdict[str, list[str]](list)
        self._open: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, tuple(found)))
        for name, value in found.items():
            self.attributes[name].append(value or "")
        if tag not in {"meta", "input", "col"}:
            self._open.append((tag, found.get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for name in {*(tag for tag, _ in self._open[-1:]), *(one for _, one in self._open if one)}:
            self.texts[name].append(data)

    def rows(self, table: str) -> list[list[Any]]:
        """Rows that the script shows."""
        [text] = self.texts[f"{table}-rows"]
        return list(json.loads(text))

    def text(self, name: str) -> str:
        return " ".join(" ".join(self.texts[name]).split())


def everywhere(text: str) -> dict[str, Any]:
    """Return a report that has the text wherever a report has text of others, and numbers of lines that are equal."""
    return report(
        branch(
            update(211, "rejected", reason=text, id=text, reason_there=text),
            update(212, "commutes", told=text, outcome=text),
            name=text,
            dcs=[text],
            ended=[{"index": 213, "id": text, "what": text}],
            disputed=2,
            disputed_quads=[disputed(text)],
        ),
        repository=text,
        strategy=text,
        reasons=[text],
        behind=[{"dc": text, "index": 1, "entries": 2}],
        unreachable=[{"dc": text, "reason": text, "unknown": text}],
        sides=[
            side(text, wins=True, last=position(250), length=40, rank=None, masters=[text], first_at=text),
            side(text, wins=False, last=position(230), length=20, rank=None, masters=[text], last_at=text),
        ],
        workers=[
            {"worker": text, "dc": text, "applied": 1, "back": 1, "forward": 1, "bytes": 1, "seconds": 0.1}
        ],
    )


def test_text_of_others_makes_no_element_and_no_attribute() -> None:
    plain, hostile = Page(html_of(everywhere("plain"))), Page(html_of(everywhere(HOSTILE)))
    assert hostile.elements == plain.elements
    assert {name for _, names in hostile.elements for name in names if name.startswith("on")} == set()
    [*_, told, outcome, _there, _here, _became, _reason, _id] = hostile.rows("updates")[1]
    assert (told, outcome) == (SHOWN, SHOWN)
    assert hostile.rows("updates")[0][-2:] == [f"{SHOWN}\nthere: {SHOWN}", SHOWN]
    assert hostile.rows("disputed")[0][3] == SHOWN
    assert SHOWN.split("\n", maxsplit=1)[0] in " ".join(hostile.texts["reasons"])
    assert "</script" not in hostile.texts["updates-rows"][0]


def test_no_character_reorders_the_text_around_it() -> None:
    assert not re.search("[\u2028\u2029\u202a-\u202e\x00]", html_of(everywhere(HOSTILE)))


def test_only_its_own_style_and_script_count_and_nothing_is_fetched() -> None:
    page = Page(html_of(everywhere(HOSTILE)))
    [policy] = [text for text in page.attributes["content"] if "default-src" in text]
    [style], [script] = page.texts["style"], page.texts["script"][-1:]
    for kind, text in (("style", style), ("script", script)):
        assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}';" in policy
    assert policy.startswith("default-src 'none';")
    assert page.attributes["src"] == page.attributes["style"] == []
    assert all(link.startswith("#") for link in page.attributes["href"])
    assert "url(" not in style
    assert "@import" not in style


def changed() -> dict[str, Any]:
    return branch(
        update(211, "rejected", reason="control"),
        *(update(index, "empty") for index in (212, 213)),
        *(update(index, "differs") for index in (214, 215, 216)),
        update(217, "opposite", "REJECTED"),
        update(218, "rejected", "REJECTED"),
        update(219, "commutes"),
        more=1203,
    )


@pytest.mark.parametrize(
    ("kind", "begin"), [("preview", "dc1 and dc2 will win"), ("report", "dc1 and dc2 won")]
)
def test_the_headline_counts_what_changes_for_clients(kind: str, begin: str) -> None:
    page = Page(html_of(report(changed(), kind=kind)))
    assert page.text("h1").startswith(f"{begin}: 1,210 of 1,212 updates of the other side")
    assert "1,209 (1,204 rejected, 2 empty, 3 differs)" in page.text("li")
    assert "not applied, but it changes quads: 1." in page.text("li")
    assert "ab" * 32 in page.texts["code"]


def test_one_update_is_in_the_singular() -> None:
    one = branch(update(211, "rejected"))
    assert Page(html_of(report(one, kind="report"))).text("h1") == (
        "dc1 and dc2 won: 1 of 1 update of the other side has another outcome than clients were told."
    )


def test_outcomes_that_clients_keep_are_said_to_be_kept() -> None:
    page = Page(html_of(report(branch(update(211, "commutes")))))
    assert page.text("h1") == (
        "dc1 and dc2 will win: no outcome of 1 update of the other side will differ from what clients were told."
    )
    assert page.texts["mark"] == []


def test_what_is_not_known_yet_is_not_promised() -> None:
    assert "no known outcome" in Page(html_of(report(branch(update(211, "unforeseen"))))).text("h1")


@pytest.mark.parametrize(
    ("sides", "unreachable", "headline"),
    [
        ([], [], "No side is known"),
        (
            [side("dc1", wins=True, last=position(9), length=0, rank=None)],
            [],
            "There is no split: dc1 has the only log",
        ),
        (
            [side("dc1", wins=True, last=position(9), length=0, rank=None)],
            [{"dc": "dc2", "reason": "silent", "unknown": "All."}],
            "There is no split among the data centres that were reached",
        ),
    ],
)
def test_what_is_no_split_is_said_so(sides: list[Any], unreachable: list[Any], headline: str) -> None:
    assert Page(html_of(report(sides=sides, unreachable=unreachable))).text("h1").startswith(headline)


def test_answers_that_do_not_hold_are_marked() -> None:
    page = Page(html_of(report(changed())))
    assert page.texts["mark"] == ["▲ 1,204", "▲ 2", "▲ 3", "▲ 1"]
    assert [row[2] for row in page.rows("updates")] == [1, 1, 1, 1, 1, 1, 1, 0, 0]


def test_the_figures_of_all_parts_are_there() -> None:
    one = branch(
        update(211, "duplicate", became=240, synchronous=True),
        ended=[{"index": 213, "id": "c1", "what": "setting max-peer-lag"}],
        disputed=1,
        disputed_quads=[disputed("<urn:a> <urn:b> <urn:c> .")],
    )
    page = Page(html_of(report(one)))
    assert page.rows("updates") == [
        [
            0, "duplicate", 0, "211", "duplicate", "applied, synchronous", "as the winner's", "-2 +3", "-0 +1", "240",
            "", f"{211:032x}",
        ]
    ]  # fmt: skip
    assert page.rows("disputed") == [
        [0, "", 0, "<urn:a> <urn:b> <urn:c> .", "yes", "no", "yes", "yes", "215", "217"]
    ]
    assert "213 setting max-peer-lag c1" in page.text("ended")
    assert "w3 dc3 230 20 60 2.0 MiB 1 min 30 s" in page.text("workers")
    assert "majority of epoch 9, 2 masters" in page.text("sides")
    assert "The winner's log already has it" in page.text("classes")


def test_rows_of_several_branches_name_theirs() -> None:
    other = branch(update(301, "waits"), name="300-other", dcs=["dc4"])
    page = Page(html_of(report(branch(update(211, "commutes")), other)))
    assert [row[:4] for row in page.rows("updates")] == [
        [0, "commutes", 0, f"210-{230:012x}"],
        [1, "waits", 0, "300-other"],
    ]
    assert page.text("option") == f"all branches 210-{230:012x} 300-other"


def test_what_is_cut_is_said() -> None:
    one = branch(update(211, "commutes"), more=4, disputed=3, disputed_quads=[disputed("a"), disputed("b")])
    page = Page(html_of(report(one)))
    assert "Listed: 1 of 5." in page.text("classes")
    assert "Listed: 1 of 5. More: quadlog split preview DIRECTORY --details NUMBER" in page.text("updates")
    assert "Listed: 2 of 3. More: quadlog split preview DIRECTORY --details NUMBER" in page.text("disputed")


def test_what_is_complete_is_not_said_to_be_cut() -> None:
    one = branch(update(211, "commutes"), update(212, "commutes"), disputed=1, disputed_quads=[disputed("a")])
    page = Page(html_of(report(one)))
    assert "All 2 are listed." in page.text("updates")
    assert "Listed" not in page.text("classes") + page.text("updates") + page.text("disputed")


def test_classes_without_updates_are_named_if_there_are_any() -> None:
    some = [update(number, update_class.value) for number, update_class in enumerate(UpdateClass)]
    assert "None: " not in html_of(report(branch(*some)))
    assert "None: duplicate." in html_of(report(branch(*some[1:])))


@pytest.mark.parametrize("kind", [*UpdateClass])
def test_each_class_has_a_colour_in_light_and_dark_and_on_paper(kind: UpdateClass) -> None:
    page = html_of(report(branch(update(211, kind.value))))
    colour = "#[0-9a-f]{3,6}"
    assert re.search(rf"--{kind.value}: light-dark\({colour}, {colour}\);", page)
    assert "color-scheme: light;" in page.partition("@media print")[2]
    assert f".{kind.value} {{ color: var(--{kind.value}); fill: var(--{kind.value}); }}" in page
    assert ".filters > .box > span {" in page
    assert ".filters .box > span" not in page, "boxes of classes keep their colours"
