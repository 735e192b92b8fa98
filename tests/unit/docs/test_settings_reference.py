"""docs/settings.md has every setting, with its default and its meaning as the code states them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic_core import PydanticUndefined

from quadlog.core.cluster_settings import SETTINGS, ClusterSettings
from quadlog.settings.common import NodeSettings
from quadlog.settings.environment import kebab
from quadlog.settings.kafka_security import KafkaSecuritySettings
from quadlog.settings.master import MasterSettings
from quadlog.settings.membership import MembershipSettings, PeerSettings
from quadlog.settings.units import MIB
from quadlog.settings.worker import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

GUIDE: Final = Path(__file__).parents[3] / "docs" / "settings.md"
HEAD: Final = """\
# Settings

A master and a worker read their settings from a TOML file (`--config`);
variables `QUADLOG_…` override it: `QUADLOG_MAX_WAITING=500` is `max-waiting = 500`.
With `_FILE` behind the name, the value is in a file.
A wrong name or value ends the process before it starts, with the reason.
What to set when: [operating.md](operating.md), [deploying.md](deploying.md).

This list is made from the code: `pytest tests/unit/docs/test_settings_reference.py --rewrite`.
"""


def meanings(source: type) -> dict[str, str]:
    """The text behind each field of a class, in one line."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(source))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if is_text else ""  # type: ignore[union-attr]
            found[field.target.id] = re.sub(r"\s+", " ", text).strip()
    return found


def limits(info: FieldInfo) -> Iterator[str]:
    words = {"ge": "at least", "gt": "above", "le": "at most"}
    within = [given for kind in get_args(info.annotation) for given in getattr(kind, "__metadata__", ())]
    for limit in (*info.metadata, *(limit for given in within for limit in given.metadata)):
        for name, word in words.items():
            if (bound := getattr(limit, name, None)) is not None:
                yield f"{word} {bound}"
    kinds = (info.annotation, *get_args(info.annotation))
    choices = [
        str(one) for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum) for one in kind
    ]
    choices += [one for one in kinds if isinstance(one, str)]
    if choices:
        yield "one of " + ", ".join(f"`{one}`" for one in choices)


def default(value: Any) -> str:  # noqa: ANN401 - of any setting
    if value is PydanticUndefined:
        return "required"
    if value in (None, inf, "", (), {}):
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value % MIB == 0:
        return f"{value}, {value // MIB} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def entries(model: type[BaseModel], texts: Mapping[str, str], *, without: set[str]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        if name in without:
            continue
        given = "; ".join([default(info.get_default(call_default_factory=True)), *limits(info)])
        assert texts[name], f"{model.__name__}.{name} has no text behind it"
        yield item(f"- `{kebab(name)}` ({given}): {texts[name]}")


def item(text: str) -> str:
    """An item of a list, at most 100 columns wide."""
    lines = textwrap.wrap(text, 98, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def reference() -> str:
    """The whole document."""
    security, node = set(KafkaSecuritySettings.model_fields), set(NodeSettings.model_fields)
    shared = {setting.field for setting in SETTINGS.values()}
    logins, texts, cluster = meanings(KafkaSecuritySettings), meanings(ClusterSettings), ClusterSettings()
    common = meanings(NodeSettings)
    membership = meanings(MembershipSettings) | meanings(MasterSettings)
    parts = {
        "Masters and workers": entries(NodeSettings, common, without=security),
        "Masters": entries(MasterSettings, membership, without=node | shared),
        "Another master: `peer.N.…`": entries(PeerSettings, meanings(PeerSettings), without=security),
        "The same at all masters, and changed at run time": (
            item(f"- `{name}` ({cluster.text(name)}): {texts[setting.field]}")
            for name, setting in SETTINGS.items()
        ),
        "Workers": entries(WorkerSettings, meanings(WorkerSettings), without=node | shared),
        "Logins at Kafka: of a process, and of each `peer.N`": entries(
            KafkaSecuritySettings, logins, without=set()
        ),
    }
    sections = (f"\n## {title}\n\n" + "\n".join(items) + "\n" for title, items in parts.items())
    return HEAD + "".join(sections)


def test_the_reference_has_what_the_code_says(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        GUIDE.write_text(reference(), encoding="utf-8")
    assert reference() == GUIDE.read_text(encoding="utf-8"), (
        "run pytest --rewrite, and look at the difference"
    )
