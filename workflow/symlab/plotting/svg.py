"""Makes the SVG files that matplotlib writes small, since a page holds all of a run's figures."""

import base64
import io
import re

from PIL import Image


def shorten(svg: str) -> str:
    """A drawing by matplotlib in a third as many bytes: to a tenth of a point, nothing said twice."""
    svg = re.sub(r"\s+", " ", re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)).replace("> <", "><")
    svg = re.sub(r'(<use [^>]*?) transform="translate\(([-\d.]+) ([-\d.]+)\)"', r'\1 x="\2" y="\3"', svg)
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda match: _shorten_path(match[0]), svg)
    svg = re.sub(r"(?<=translate\()[^)]*", lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), svg)
    # Of all names only those that something refers to, by their number.
    reference = r'(href="#|url\(#)([\w.-]+)'
    names = {name: f"n{at}" for at, (_, name) in enumerate(dict.fromkeys(re.findall(reference, svg)))}
    svg = re.sub(r' id="([^"]*)"', lambda match: f' id="{names[match[1]]}"' if match[1] in names else "", svg)
    svg = re.sub(reference, lambda match: match[1] + names[match[2]], svg)
    svg = re.sub(r"(?<=data:image/png;base64,)[\w+/= ]+", lambda match: _shorten_png(match[0]), svg)
    # The style of marks that are all alike is their group's (but opacity, which a group has as a whole).
    alike = r'<g((?: clip-path="[^"]*")?)>(<use [^>]*?( style="(?:(?!opacity)[^"])*")/>(?:<use [^>]*?\3/>)*)</g>'
    svg = re.sub(alike, lambda match: f"<g{match[1]}{match[3]}>{match[2].replace(match[3], '')}</g>", svg)
    svg = re.sub(r' style="[^"]*"', lambda match: match[0].replace("; ", ";").replace(": ", ":"), svg)
    return _without_bare_groups(svg.replace(' x="0"', "").replace(' y="0"', ""))


def _without_bare_groups(svg: str) -> str:
    """The drawing without groups that have no attribute."""
    kept: list[bool] = []
    parts = re.split(r"(</g>|<g\b[^>]*(?<!/)>)", svg)
    for at in range(1, len(parts), 2):
        if parts[at] == "</g>":
            parts[at] = "</g>" if kept.pop() else ""
        else:
            kept.append(parts[at] != "<g>")
            parts[at] = parts[at] if kept[-1] else ""
    return "".join(parts)


def _shorten_path(path: str) -> str:
    path = re.sub(r"\.(\d)\d+", r".\1", path)
    path = re.sub(r"(\.\d*?)0+(?!\d)", r"\1", path)
    path = re.sub(r"\.(?!\d)", "", path)
    path = re.sub(r" ?([MLQCz]) ?", r"\1", path)
    # What follows the points of a letter are points of the same one, or of L after M.
    for letter, following in (("[ML]", "L"), ("Q", "Q"), ("C", "C")):
        run = rf"{letter}[-\d. ]+(?:{following}[-\d. ]+)+"
        path = re.sub(run, lambda match: match[0][0] + re.sub("[LQC]", " ", match[0][1:]), path)
    return path


def _shorten_png(content: str) -> str:
    """A picture in base64 with a palette of 256 colours, as a map of one colour bar has; one that is clear stays."""
    picture, small = Image.open(io.BytesIO(base64.b64decode(content))), io.BytesIO()
    if picture.mode == "RGBA" and picture.getchannel("A").getextrema() != (255, 255):
        return content
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()
