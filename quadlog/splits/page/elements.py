r"""HTML elements whose text and attributes are escaped, and text in which no character is invisible.

>>> markup(element("p", "<script>", element("b", "x", class_="y"), "\u202e & more"))
'<p>&lt;script&gt;<b class="y">x</b>\\u202E &amp; more</p>'
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, tostring

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters except tabs and line feeds, characters that reorder text, and halves of pairs."""


def visible(text: str) -> str:
    r"""Replace characters that would be invisible, or reorder the text around them, by escapes.

    >>> visible("a\u202eb\x00")
    'a\\u202Eb\\u0000'
    """
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04X}", text)


def element(tag: str, /, *children: Element | str, **attributes: str | float) -> Element:
    """Return an element; `class_` is the attribute `class`, `view_box` is `view-box`.

    Text of `script` and `style` is not escaped when it is written: it must not come from others.
    """
    names = {name.rstrip("_").replace("_", "-"): visible(str(value)) for name, value in attributes.items()}
    made = Element(tag, names)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + visible(child)
        else:
            made.text = (made.text or "") + visible(child)
    return made


def markup(root: Element) -> str:
    """Return an element as HTML."""
    return tostring(root, encoding="unicode", method="html")
