"""Stored transcripts: what figures draw and tensors hold, told in lines, and where two differ beyond rounding."""

import re
import zlib
from itertools import zip_longest

import matplotlib
import torch
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator

NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
CELL = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
"""A number for people, thousands with commas, and one of a table, whose cells have commas between them."""
DECIMALS = re.compile(r"\d\.\d|\de-\d")
COUNT = 1000
"""Whole numbers below are counts and places, compared to the letter; larger ones may be rounded."""


def summary(tensor):
    """Its type and shape, with its numbers if they are integers, or else two sums that depend on their order."""
    kind = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if not tensor.is_floating_point():
        return f"{kind} {tensor.tolist()}"
    values = tensor.double().flatten()
    values, fixed = values[values.isfinite()], torch.arange(tensor.numel()).double().add(1).cos()[values.isfinite()]
    return f"{kind} {short(float(values @ fixed))} {short(float(values.square() @ fixed))}"


def short(number):
    return f"{number:.5g}"


def picture(figure):
    """What a figure draws, axes by axes, and the settings that it is drawn with; not where things stand."""
    changed = {key: value for key, value in matplotlib.rcParams.items() if value != matplotlib.rcParamsDefault[key]}
    settings = zlib.crc32("".join(f"{key}: {changed[key]}\n" for key in changed if "backend" not in key).encode())
    lines = [f"{figure.get_figwidth():g} x {figure.get_figheight():g} inches, settings of matplotlib {settings}"]
    for legend in figure.legends:
        lines += [f"legend in {legend._ncols} columns: {legend.get_title().get_text()!r}"]
        entries = zip(legend.get_texts(), legend.legend_handles, strict=True)
        lines += [f"  {text.get_text()!r} {_look(line)}" for text, line in entries]
    for axis in figure.axes:
        words = (axis.get_title(), axis.get_xlabel(), axis.get_ylabel(), axis.get_xscale(), axis.get_yscale())
        grid = "".join(each for each in "xy" if getattr(axis, f"{each}axis").get_gridlines()[0].get_visible())
        lines += [f"axes {words}, grid {grid or None}, below {axis.get_axisbelow()}, margins {axis.margins()}"]
        if isinstance(axis.xaxis.get_major_locator(), FixedLocator):
            lines += [f"  at {[text.get_text() for text in axis.get_xticklabels()]}"]
        lines += [f"  {_look(line)} {summary(torch.as_tensor(line.get_xydata()))}" for line in axis.lines]
        lines += [f"  {text.get_text()!r} {text.get_rotation():g} {text.xyann}" for text in axis.texts]
        for area in axis.collections:
            parts = torch.cat([torch.as_tensor(path.vertices) for path in area.get_paths()])
            colors = {to_hex(each, keep_alpha=True) for each in (*area.get_facecolor(), *area.get_edgecolor())}
            lines += [f"  {type(area).__name__} {sorted(colors)} {area.get_linewidth()} {summary(parts)}"]
    return "\n".join(lines)


def _look(line):
    marks = f" {line.get_marker()} {line.get_markersize():g} {to_hex(line.get_markerfacecolor())}"
    drawn = f"{line.get_linestyle()} {line.get_linewidth():g} {to_hex(line.get_color())}"
    return f"{drawn}{marks * (line.get_marker() != 'None')} {line.get_alpha()} {line.get_zorder():g}"


def once(lines, prompt):
    """Lines, of which long ones that were there before, to the letter, are told by how they begin."""
    seen = set()
    for line in lines:
        long = len(line) > 60 and not line.startswith(prompt) and not DECIMALS.search(line)
        yield f"{line[:40]}^" if long and line in seen else line
        seen.add(line)


def differences(here, there, prompt, rtol, atol):
    """Lines of a transcript that differ from those of another in more than rounding.

    What follows a line that begins with ``prompt`` was printed; what follows one that begins with == are tables.
    """
    told = True
    for n, (a, b) in enumerate(zip_longest(here.splitlines(), there.splitlines(), fillvalue=""), 1):
        # What is printed has the digits that people want, in which the last may be another.
        told = b.startswith(prompt) or (told and not b.startswith("== "))
        number = NUMBER if told else CELL
        near = number.sub("#", a) == number.sub("#", b) and all(
            x == y or (not _is_count(x, y) and abs(_value(x) - _value(y)) <= atol
                       + max(rtol * abs(_value(y)), told * _last_digit(y)))
            for x, y in zip(number.findall(a), number.findall(b), strict=True)
        )  # fmt: skip
        if not near:
            yield f"line {n}: {a!r} in the place of {b!r}"


def _is_count(*numbers):
    return all(number.lstrip("-").isdigit() and abs(int(number)) < COUNT for number in numbers)


def _value(number):
    return float(number.replace(",", ""))


def _last_digit(number):
    """What one more in the last digit of a number adds to it; nothing to a whole number, which is a count."""
    mantissa, _, power = number.partition("e")
    return 1.01 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2])) if "." in number or power else 0.0
