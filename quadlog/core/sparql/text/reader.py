"""Reader of the tokens of a SPARQL text, which refuses a text that it does not understand."""

from __future__ import annotations

from typing import NoReturn

from quadlog.core.sparql.text.tokens import place, tokens
from quadlog.errors import SyntaxRefused, Unsupported


class TextReader:
    """The current token of a text, with methods to advance."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self.kind = self.value = ""
        self.start = 0
        self.advance()

    def advance(self) -> None:
        """Advance to the next token."""
        token = next(self._tokens)
        self.kind = kind = token.lastgroup or ""
        self.value = token[kind]
        self.start = token.end() - len(self.value)

    def word(self) -> str:
        """Return the current token in capitals if it is a word, and an empty string otherwise."""
        return self.value.upper() if self.kind == "word" else ""

    def accept(self, value: str) -> bool:
        """Skip the current token if it is the mark `value`; return whether it was."""
        if self.value != value or self.kind != "mark":
            return False
        self.advance()
        return True

    def expect(self, value: str) -> None:
        """Skip a required mark."""
        if not self.accept(value):
            self.lost(f"where {value} was expected")

    def lost(self, why: str) -> NoReturn:
        """Raise ``Unsupported`` at the current token, which is not understood: nothing is ever guessed."""
        raise Unsupported(f"not understood: {self.value[:40]!r} at {self.place()}, {why}")

    def wrong(self, why: str) -> NoReturn:
        """Raise ``SyntaxRefused`` at the current token, at which the text is not SPARQL."""
        raise SyntaxRefused(f"not SPARQL: {self.place()}: {why}")

    def place(self) -> str:
        """Return line and column of the current token."""
        return place(self.text, self.start)
