"""How generated texts write numbers for people: with minus signs and powers of ten."""

from __future__ import annotations

import re

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def typeset(text: str) -> str:
    """The text with its numbers as people write them: −0.5 for -0.5, 2 × 10⁻⁵ for 2e-05."""
    text = re.sub(r"(?<![\w.)\]-])-(?=\.?\d)", "\N{MINUS SIGN}", text)
    return re.sub(r"(?<=\d)e([+-]\d+)\b", lambda found: f" × 10{str(int(found[1])).translate(SUPERSCRIPTS)}", text)
