"""What a paper's card says: how it is cited, its figures in order, and the measures and experiments that are its own.

Cards name what they register; the Snakefile reads them on every start, so they import nothing heavy.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from symlab.measures import Measure, Table
from symlab.plotting.types import Figure as Drawn
from symlab.study.experiment import Experiment

if TYPE_CHECKING:
    from symlab.plotting.style import Style
    from symlab.study.claim import Tables


KINDS = {"thm": "Theorem", "prop": "Proposition", "sec": "Section", "": "Figure"}


@dataclass(frozen=True)
class Figure:
    """A figure's line: its id, the file that draws it, and the tables without which it cannot be drawn."""

    id: str
    """The paper's prefix and the number: ``identifiability-4``, ``permutation-3``."""
    module: str
    """Dotted name of its file, which holds ``FIGURES`` and ``CLAIMS``."""
    tables: tuple[str, ...]


@dataclass(frozen=True)
class At:
    """A value that a claim measures: that of the case whose key holds these, or of all cases that hold them."""

    claim: str
    key: Mapping[str, Any]


def at(claim: str, /, **key: Any) -> At:
    """``at("identifiability-4a-barrier", scheme="w_asymmetric", sigma_F=0)``."""
    return At(claim, key)


@dataclass(frozen=True)
class Sentence:
    """A sentence with places for measured values. A study tells it if it has all of them."""

    text: str
    """With {names} in the places of the values: {name:%} for a share in percent, {name:~} and {name:~%} for two digits
    without the error, {name:^} for ten to the power of the value, {name:^2} for two to it. Markdown."""
    values: Mapping[str, At | tuple[str, str]]
    """What each name stands for; or a claim with the name of a case. Of several cases all are listed, by name."""
    otherwise: str = ""
    """What it says where a value that stands in it did not hold; without it ``text`` has to be true of any value."""


@dataclass(frozen=True)
class Drawing:
    """What a figure's file says of it: title, caption, drawing; its ``FIGURES`` lists these by id."""

    title: str
    caption: str
    """Markdown paragraphs; ``{study}`` stands for the study's name. Greek letters are Unicode (σ_F)."""
    draw: Callable[[Tables, Style], Drawn]
    """Tables by file name (all that the study has) and a style in, a matplotlib figure out."""
    seen: Sentence | str | None = None
    """What the picture shows, with values that claims measure in the same tables. In a plain text {names} stand for
    values of the figure's own claims: under permutation-3 {peak} for all of permutation-3-peak, {peak(M=4)} for one.
    Another figure's claim is named in full: {permutation-4-rise}."""
    differs: str = ""
    """How the picture differs from the paper's, in what is drawn or in its scale; empty where it does not."""
    id: str = ""

    @property
    def sentence(self) -> Sentence | None:
        """``seen``, with the claims that its names stand for."""
        return sentence_of(self.id, self.seen) if isinstance(self.seen, str) else self.seen


def sentence_of(figure: str, text: str, otherwise: str = "") -> Sentence:
    """A sentence whose {names} are claims of a figure, as in ``Drawing.seen``.

    With a paper's prefix in the figure's place they begin with the figure's number: {3-peak}.
    """
    values: dict[str, At] = {}

    def place(found: re.Match[str]) -> str:
        whole = found[1].startswith(f"{figure.split('-')[0]}-")
        named = at(found[1] if whole else f"{figure}-{found[1]}", **_key(found[2] or ""))
        name = next((name for name, each in values.items() if each == named), f"_{len(values)}")
        values[name] = named
        return "{" + name

    names = r"(?<!\{)\{([^{}(:]+)(?:\(([^)]*)\))?(?=[:}])"
    text, otherwise = (re.sub(names, place, each) for each in (text, otherwise))
    return Sentence(text, values, otherwise)


def _key(text: str) -> dict[str, Any]:
    """``L=6, scheme=RN2 uniform`` as a key: numbers, True, False, and words as they are, without commas."""
    key = {}
    for pair in filter(None, text.split(", ")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is no key: {pair!r} lacks its name")
        try:
            key[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            key[name] = value
    return key


def drawings_of(module: str) -> dict[str, Drawing]:
    """What a figures' file draws, by id."""
    return {drawing.id: drawing for drawing in with_ids(import_module(module).FIGURES)}


def with_ids(listed: Mapping[str, Any]) -> list[Any]:
    """The drawings or claims of a file, each with the id that it is listed by."""
    return [replace(each, id=name) for name, each in listed.items()]


@dataclass(frozen=True)
class Paper:
    """A paper's card."""

    slug: str
    """Its name in the ledger of claims."""
    prefix: str
    """What the ids of its figures begin with, before the hyphen and the number."""
    authors: str
    short: str
    """The authors as a text cites them."""
    title: str
    where: str
    """Where it appeared, the year included."""
    link: str
    figures: tuple[Figure, ...]
    found: tuple[Sentence, ...] = ()
    """What a report and the docs say first, of each study that measured it."""
    terms: tuple[tuple[str, str], ...] = ()
    """Words and symbols that the sentences use, each with its meaning in a line."""
    scale: str = ""
    """The paper's own sizes, to be set beside those of a study."""
    subjects: str = ""
    """What its experiments are made with, in a phrase, where a study's networks and data do not say it."""
    heading: str = ""
    """What the paper says, in a line for those who know nothing of it."""
    headline: tuple[Sentence, ...] = ()
    """What was found, in sentences for the same readers, one number in bold; README has the first two."""
    largest: str = ""
    """The kept run nearest to the paper's scale: docs tell the headline from it, and from the demo what it lacks."""
    thumbnail: tuple[str, int, str] = ("", 0, "")
    """What stands for the paper on a report's first screen: a figure, which of its panels from 0 on, its marks."""
    measures: tuple[Measure, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    tables: tuple[Table, ...] = ()
    captions: dict[str, str] | None = None
    """What each of its tables holds, by file name, in Markdown."""

    def number(self, figure: str) -> str:
        """A figure's number in the paper: permutation-2 is 2."""
        return figure.removeprefix(f"{self.prefix}-")

    def title_of(self, figure: str) -> str:
        """A figure as a reader calls it: Figure 4a, Theorem 4.5, Ridge."""
        number = re.fullmatch(r"(thm|prop|sec|)(\d.*)", self.number(figure))
        return f"{KINDS[number[1]]} {number[2]}" if number else self.number(figure).capitalize()
