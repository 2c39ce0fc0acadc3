"""Cards of papers that do not exist, whose figures' files are modules made here."""

import itertools
import sys
from types import ModuleType

import pytest

from symlab.study.card import Drawing, Figure, Paper

NUMBER = itertools.count()


def make_card(patched, claims, figures=("1",), prefix="test", drawings=None, **fields):
    """A paper with a file of figures and the claims given; ids of figures are ``<prefix>-<number>``."""
    module = ModuleType(f"symlab_test_figures_{next(NUMBER)}")
    ids = [f"{prefix}-{number}" for number in figures]
    module.CLAIMS = {claim.id: claim for claim in claims}
    module.FIGURES = drawings or {name: Drawing(f"About {name}", "Of study `{study}`: *σ_F* <b>", None) for name in ids}
    patched.setitem(sys.modules, module.__name__, module)
    listed = tuple(Figure(name, module.__name__, ("a.csv",)) for name in ids)
    named = {"authors": "A, B", "short": f"{prefix.title()} et al.", "title": "Title", "where": "2026", "link": "#"}
    return Paper(f"{prefix}-paper", prefix, figures=listed, **(named | fields))


@pytest.fixture
def card(monkeypatch):
    return lambda *given, **fields: make_card(monkeypatch, *given, **fields)
