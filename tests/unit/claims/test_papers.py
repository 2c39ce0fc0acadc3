import subprocess
import sys

import pytest

from symlab import papers
from symlab.claims import PAPERS
from symlab.papers import figure_name, figure_order, number_of, paper, paper_of


@pytest.mark.parametrize(
    ("figure", "name"),
    [
        ("4a", "Figure 4a"),
        ("12", "Figure 12"),
        ("thm4.5", "Theorem 4.5"),
        ("prop5.2", "Proposition 5.2"),
        ("sec4.5", "Section 4.5"),
        ("ridge", "Ridge"),
        ("permutation-2", "Figure 2 (Zhan et al.)"),
        ("permutation-15", "Figure 15 (Zhan et al.)"),
    ],
)
def test_figures_are_called_by_their_numbers_and_their_paper(figure, name):
    assert figure_name(figure) == name


def test_figures_sort_as_a_reader_counts():
    assert sorted(["10", "3c", "21", "3a", "A1", "4a"], key=figure_order) == ["3a", "3c", "4a", "10", "21", "A1"]
    figures = ["permutation-10", "permutation-2", "permutation-9"]
    assert sorted(figures, key=figure_order) == ["permutation-2", "permutation-9", "permutation-10"]


def test_prefixes_tell_papers_apart():
    assert len({each.prefix for each in papers.PAPERS}) == len(papers.PAPERS)
    assert paper_of("permutation-2").slug == "permutation-invariance" and number_of("permutation-2") == "2"
    assert paper_of("thm4.4").slug == "neuron-identifiability" and number_of("thm4.4") == "thm4.4"


def test_every_claim_is_of_the_paper_that_its_figure_is_from():
    assert set(PAPERS) == {each.slug for each in papers.PAPERS}
    for slug, claims in PAPERS.items():
        assert {paper_of(figure).slug for claim in claims for figure in (claim.figure, *claim.also)} == {slug}
    assert paper("another") is None


def test_the_module_imports_nothing_that_takes_time():
    code = "import sys, symlab.papers; print(*{'numpy', 'pandas', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
