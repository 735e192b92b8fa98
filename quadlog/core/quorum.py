"""The synchronous quorum: how many voting data centres must have an entry before it is committed, as a formula."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

LONGEST: Final = 100
"""Maximum number of characters of a formula."""

MOST_CENTRES: Final = 64
"""Number of data centres up to which a formula must have a value."""

WANTED: Final = "a whole number above 0, or a formula of numbers and N (the voting data centres), as N/2 + 1"


@lru_cache(maxsize=64)
def quorum_of(formula: str, centres: int) -> int:
    """Return the number of data centres that a formula requires, rounded down.

    Args:
        formula: a formula that `checked` accepts.
        centres: number of voting data centres.

    >>> quorum_of("N/2 + 1", 3), quorum_of("N/2 + 1", 4), quorum_of("N", 3), quorum_of("2", 5)
    (2, 3, 3, 2)

    Raises:
        ValueError: the formula has no value for this number, or one below 1.

    """
    try:
        quorum = _value(_tree(formula), centres).__floor__()
    except ZeroDivisionError:
        raise ValueError(f"{WANTED}; with N = {centres} this one divides by 0") from None
    if quorum < 1:
        raise ValueError(f"{WANTED}; with N = {centres} this one is {quorum}")
    return quorum


def checked(formula: str) -> str:
    """Return a formula as it is written in settings, if it has a value for each number of data centres.

    >>> checked(" n/2+1 "), checked("3")
    ('N/2 + 1', '3')

    Raises:
        ValueError: it is no formula, or has no value, or one below 1, for some number of data centres.

    """
    tree = _tree(formula)
    for centres in range(1, MOST_CENTRES + 1):
        quorum_of(formula, centres)
    text = _text(tree)
    _tree(text)  # it may be longer than what was given
    return text


@lru_cache(maxsize=16)
def _tree(formula: str) -> ast.expr:
    if len(formula) > LONGEST:
        raise ValueError(f"{WANTED}, of at most {LONGEST} characters")
    if not re.fullmatch(r"[0-9Nn+\-*/() ]+", formula):
        raise ValueError(WANTED)
    try:
        return ast.parse(formula.strip().upper(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(WANTED) from None


def _value(tree: ast.expr, centres: int) -> Fraction:
    match tree:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return Fraction(number)
        case ast.Name(id="N"):
            return Fraction(centres)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, centres) + _value(right, centres)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, centres) - _value(right, centres)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, centres) * _value(right, centres)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left, centres) / _value(right, centres)
        case _:
            raise ValueError(WANTED)


def _text(tree: ast.expr) -> str:
    """Write a formula with blanks around sums, and none around products."""
    text = ast.unparse(tree)
    return text.replace(" * ", "*").replace(" / ", "/")
