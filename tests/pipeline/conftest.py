"""Cards of papers that do not exist, whose figures' files are modules made here."""

import itertools
import sys
from types import ModuleType

import pytest

from symlab.study.card import Drawing, Figure, Paper

NUMBER = itertools.count()


@pytest.fixture
def card(monkeypatch):
    """Makes a paper with a file of figures and the claims given; ids of figures are ``<prefix>-<number>``."""

    def make(claims, figures=("1",), prefix="test", **fields):
        module = ModuleType(f"symlab_test_figures_{next(NUMBER)}")
        ids = [f"{prefix}-{number}" for number in figures]
        module.CLAIMS = {claim.id: claim for claim in claims}
        module.FIGURES = {name: Drawing(f"About {name}", "Of study `{study}`: *σ_F* <b>", None) for name in ids}
        monkeypatch.setitem(sys.modules, module.__name__, module)
        listed = tuple(Figure(name, module.__name__, ("a.csv",)) for name in ids)
        return Paper(
            f"{prefix}-paper", prefix, "A, B", f"{prefix.title()} et al.", "Title", "2026", "#", listed, **fields
        )

    return make
