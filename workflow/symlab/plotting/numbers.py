"""How generated texts write numbers for people: with minus signs and powers of ten."""

import math
import re

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def typeset(text: str) -> str:
    """The text with its numbers as people write them: −0.5 for -0.5, 2 × 10⁻⁵ for 2e-05."""
    text = re.sub(r"(?<![\w.)\]-])-(?=\.?\d)", "\N{MINUS SIGN}", text)
    return re.sub(r"(?<=\d)e([+-]\d+)\b", lambda found: f" × 10{str(int(found[1])).translate(SUPERSCRIPTS)}", text)


def format_number(value: float) -> str:
    """Three digits, thousands in full."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "\N{MINUS SIGN}infinite"
    # Rounded first: 999.6 is 1,000 and no power of ten; a zero has no sign.
    rounded = float(f"{value:.3g}") + 0.0
    return typeset(f"{value:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.3g}")


def format_briefly(value: float) -> str:
    """Two digits, or all before the point: 29, 0.49, 0.0087, 1,200."""
    return typeset(f"{value:,.0f}") if 10 <= abs(value) < math.inf else format_number(float(f"{value:.2g}"))


def format_value(value: float, error: float = math.nan) -> str:
    """A value with its standard error, to the error's second digit: 29.1 ± 5.1, 0.0514 ± 0.0098; an exact one bare."""
    if error == 0 or math.isnan(error) or math.isinf(error) or math.isinf(value):
        return format_number(value)
    digits = 1 - math.floor(math.log10(error))
    # Small errors and large values are both readable in the notation of powers alone.
    if digits > 6:
        figures = math.floor(math.log10(abs(value))) + digits + 1 if value else 0
        # More than 15 are of the number's binary form.
        return typeset(f"{value + 0.0:.{min(max(figures, 3), 15)}g} ± {error:.2g}")
    decimals = max(digits, 0)
    return typeset(f"{round(value, digits) + 0.0:,.{decimals}f} ± {round(error, digits):,.{decimals}f}")
