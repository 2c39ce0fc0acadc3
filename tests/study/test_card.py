"""Sentences under figures, with the claims that they name in their text."""

import pytest

from symlab.study.card import At, Drawing, sentence_of


def test_a_plain_text_names_claims_of_its_figure_and_which_case_of_them():
    text = "All {peak:%}, one {peak(M=4, scheme=W uniform, std=1e-4, fit=False):^2}, of {below-2M}."
    sentence = Drawing("", "", print, seen=text, id="test-3").sentence
    told = sentence.text.format(**{name: Place(place) for name, place in sentence.values.items()})
    key = {"M": 4, "scheme": "W uniform", "std": 1e-4, "fit": False}
    assert told == f"All test-3-peak {{}} %, one test-3-peak {key} ^2, of test-3-below-2M {{}} ."
    assert type(next(place for place in sentence.values.values() if place.key).key["M"]) is int


def test_a_text_names_claims_of_other_figures_in_full_or_under_their_paper():
    under_figure = Drawing("", "", print, seen="{peak}, {test-4-rise(M=4):~}", id="test-3").sentence
    under_paper = sentence_of("test", "{3-peak}, {4-rise(M=4):~}", "Not {4-rise(M=4):%}, only {3-peak}.")
    assert {*map(str, under_figure.values.values())} == {*map(str, under_paper.values.values())}
    told = {name: Place(place) for name, place in under_paper.values.items()}
    assert under_figure.text.format(**told) == "test-3-peak {} , test-4-rise {'M': 4} ~"
    assert under_paper.otherwise.format(**told) == "Not test-4-rise {'M': 4} %, only test-3-peak {} ."


def test_a_key_of_a_place_has_names_and_braces_alone_are_text():
    with pytest.raises(ValueError, match="'a, b' is no key: 'a' lacks its name"):
        _ = Drawing("", "", print, seen="{peak(a, b)}", id="test-3").sentence
    assert Drawing("", "", print, seen="{{x}}", id="test-3").sentence.text == "{{x}}"


class Place:
    def __init__(self, place: At) -> None:
        self.place = place

    def __format__(self, form: str) -> str:
        return f"{self.place.claim} {dict(self.place.key)} {form}"
