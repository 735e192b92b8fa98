"""PREFIX, BASE and VERSION: resolution of names, and the declarations as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.sparql.text.terms import Names

if TYPE_CHECKING:
    from quadlog.core.sparql.text.reader import TextReader


class Prologue:
    """The declarations so far; those before one operation also apply to all later operations."""

    def __init__(self) -> None:
        self.names = Names()
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Text of all declarations in their order, for a query in which names must have the same meaning."""
        return "".join(f"{text}\n" for text in self._texts)

    def read(self, reader: TextReader) -> None:
        """Parse any number of declarations in any order."""
        while (keyword := reader.word()) in {"PREFIX", "BASE", "VERSION"}:
            reader.advance()
            prefix = ""
            if keyword == "PREFIX":
                prefix = reader.value
                if reader.kind != "pname" or not prefix.endswith(":"):
                    reader.lost("where a prefix was expected")
                reader.advance()
            if reader.kind != ("string" if keyword == "VERSION" else "iri"):
                reader.lost(f"after {keyword}")
            try:
                if keyword == "PREFIX":
                    self.names.set_prefix(prefix, reader.value)
                elif keyword == "BASE":
                    self.names.set_base(reader.value)
            except (SyntaxError, ValueError) as error:
                reader.wrong(str(error))
            self._texts.append(f"{keyword} {prefix} {reader.value}")
            reader.advance()
