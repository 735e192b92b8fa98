"""The few words of JSON Schema that the schema of a report has: enough to check it, and no dependency more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPLIT_REPORT: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).parents[2].joinpath("docs", "split-report.schema.json").read_text()
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "format",
    "type", "required", "properties", "additionalProperties", "items", "enum", "const", "oneOf", "pattern",
}  # fmt: skip


def errors_in(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield what of a value is not as a schema says; `root` has the definitions."""
    assert set(schema) <= _KNOWN, f"{at}: {set(schema) - _KNOWN} is not known here"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from errors_in(value, root["$defs"][name], root, at)
    if "oneOf" in schema:
        fit = [one for one in schema["oneOf"] if not [*errors_in(value, one, root, at)]]
        if len(fit) != 1:
            yield f"{at}: {value!r} is one of {len(fit)}"
    if "type" in schema and not any(_is(value, name) for name in _names(schema["type"])):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if value not in schema.get("enum", [schema.get("const", value)]):
        yield f"{at}: {value!r} is none of those that are allowed"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not match"
    if isinstance(value, dict):
        yield from _errors_of_an_object(value, schema, root, at)
    if isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            yield from errors_in(one, schema["items"], root, f"{at}[{number}]")


def _errors_of_an_object(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, one in value.items():
        if name in properties:
            yield from errors_in(one, properties[name], root, f"{at}.{name}")
        elif others is False:
            yield f"{at}: {name} is not known"
        elif others is not True:
            yield from errors_in(one, others, root, f"{at}.{name}")


def _names(type_: str | list[str]) -> list[str]:
    return [type_] if isinstance(type_, str) else type_


def _is(value: object, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and not (isinstance(value, bool) and name in {"integer", "number"})
