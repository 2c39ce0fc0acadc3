"""How sentences count things."""

import re


def counted(n: float, things: str) -> str:
    """A number of things that are named in the plural: "1 group", "2 groups", "1 draw of masks", "1,024 samples"."""
    number = f"{n:,.0f}"
    return f"{number} {re.sub('s(?= of |$)', '', things, count=1) if number == '1' else things}"
