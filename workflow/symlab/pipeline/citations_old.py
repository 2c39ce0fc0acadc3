"""The papers whose figures are drawn and whose claims are checked, and what their figures are called.

The Snakefile imports this module on every start, so it imports nothing that takes time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """What is needed to cite a paper, and how its figures are told from those of the others."""

    slug: str
    """Its name in the ledger of claims."""
    prefix: str
    """What the names of its figures begin with, before the number; empty for one paper."""
    authors: str
    short: str
    """The authors as a text cites them."""
    title: str
    where: str
    """Where it appeared, the year included."""
    link: str


PAPERS: tuple[Paper, ...] = (
    Paper(
        "neuron-identifiability",
        "",
        "Bürgin, Herbst, Lin, Jegelka",
        "Bürgin et al.",
        "Beyond Structural Symmetries: Linear Mode Connectivity via Neuron Identifiability",
        "2026",
        "https://arxiv.org/abs/2606.04754",
    ),
    Paper(
        "permutation-invariance",
        "permutation-",
        "Zhan, Li, Wu",
        "Zhan et al.",
        "Analyzing the Role of Permutation Invariance in Linear Mode Connectivity",
        "AISTATS 2025",
        "https://arxiv.org/abs/2503.06001",
    ),
)

KINDS = {"thm": "Theorem", "prop": "Proposition", "sec": "Section", "": "Figure"}


def paper(slug: str) -> Paper | None:
    """The paper of that name; None if it is not listed."""
    return next((each for each in PAPERS if each.slug == slug), None)


def paper_of(figure: str) -> Paper:
    """The paper that a figure is from, by the longest prefix that the figure's name begins with."""
    return max((each for each in PAPERS if figure.startswith(each.prefix)), key=lambda each: len(each.prefix))


def number_of(figure: str) -> str:
    """The figure's number in its paper: permutation-2 is 2, 4a stays 4a."""
    return figure.removeprefix(paper_of(figure).prefix)


def figure_name(figure: str) -> str:
    """A figure as a reader calls it: 4a is Figure 4a, thm4.5 Theorem 4.5, permutation-2 Figure 2 (Zhan et al.)."""
    number = re.fullmatch(r"(thm|prop|sec|)(\d.*)", number_of(figure))
    name = f"{KINDS[number[1]]} {number[2]}" if number else number_of(figure).capitalize()
    # Numbers without a prefix are those of the paper that the others are told apart from.
    return f"{name} ({paper_of(figure).short})" if paper_of(figure).prefix else name


def figure_order(figure: str) -> tuple[int, str]:
    """Key that sorts figures of one paper as a reader does (3a, 3c, 10), and after them all without a number in front.

    The latter share one key, so that a stable sort leaves theorems and sections in the order of their claims.
    """
    number = re.match(r"\d+", number_of(figure))
    return (int(number.group()), number_of(figure)) if number else (10**6, "")
