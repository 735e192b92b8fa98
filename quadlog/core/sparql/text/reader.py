"""SPARQL text, read token by token, and refused where it cannot be followed."""

from __future__ import annotations

from typing import NoReturn

from quadlog.core.sparql.text.tokens import place, tokens
from quadlog.errors import SyntaxRefused, Unsupported


class Reader:
    """The token under the eye, and the way to the next."""

    def __init__(self, text: str) -> None:
        """Starts on the first token."""
        self.text = text
        self._tokens = tokens(text)
        self.kind = self.value = ""
        self.start = 0
        self.advance()

    def advance(self) -> None:
        """On to the next token."""
        token = next(self._tokens)
        self.kind = kind = token.lastgroup or ""
        self.value = token[kind]
        self.start = token.end() - len(self.value)

    def word(self) -> str:
        """The word under the eye in capitals, or nothing."""
        return self.value.upper() if self.kind == "word" else ""

    def take(self, value: str) -> bool:
        """Pass over a mark if it is the one named."""
        if self.value != value or self.kind != "mark":
            return False
        self.advance()
        return True

    def expect(self, value: str) -> None:
        """Pass over a mark that must be there."""
        if not self.take(value):
            self.lost(f"where {value} was expected")

    def lost(self, why: str) -> NoReturn:
        """Refuse what is not understood: nothing is ever guessed."""
        raise Unsupported(f"not understood: {self.value[:40]!r} at {self.place()}, {why}")

    def wrong(self, why: str) -> NoReturn:
        """Refuse what no SPARQL text may say."""
        raise SyntaxRefused(f"not SPARQL: {self.place()}: {why}")

    def place(self) -> str:
        """Where the eye is."""
        return place(self.text, self.start)
