"""Texts become HTML as the papers write their quantities, and nothing in a text can become markup."""

import base64

import jinja2
import pytest

from symlab import html
from symlab.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("W sigma_F = 1, layer 2", "W σ<sub>F</sub> = 1, layer 2"),
        ("mu_D I, S_i and gamma_out", "μ<sub>D</sub> I, S<sub>i</sub> and γ<sub>out</sub>"),
        ("‖δ_out‖² / ⟨P, S⟩_F", "‖δ<sub>out</sub>‖² / ⟨P, S⟩<sub>F</sub>"),
        ("m^(-2/k) and beta^1.5: slope", "m<sup>−2/k</sup> and β<sup>1.5</sup>: slope"),
        ("as beta^2.", "as β<sup>2</sup>."),
        ("F Σ^½", "F Σ<sup>½</sup>"),
        ("nu of menu, target_nu, gmm_k2, w_sigma_F1", "ν of menu, target_nu, gmm_k2, w_sigma_F1"),
        ('a < b & "c" <script>', "a &lt; b &amp; &#34;c&#34; &lt;script&gt;"),
    ],
)
def test_quantities_are_typeset_and_names_are_not(text, expected):
    assert str(html.typeset(text)) == expected


def test_captions_are_typeset_outside_literals():
    text = "Costs at σ_F = 0, study ``my_sigma_F`` & *more*.\n\nSee `here <https://example.org/a_b>`_."
    rendered = html.from_rst(text, "a caption")
    assert "σ<sub>F</sub> = 0, study <code>my_sigma_F</code> &amp; <em>more</em>" in rendered
    assert 'href="https://example.org/a_b"' in rendered


@pytest.mark.parametrize(
    "text", ["An ``open literal", ".. raw:: html\n\n   <script>x</script>", ".. include:: /etc/passwd"]
)
def test_a_caption_with_a_mistake_is_named(text, capsys):
    with pytest.raises(UserError, match=r"The caption x\.rst is not valid reStructuredText"):
        html.from_rst(text, "The caption x.rst")
    assert capsys.readouterr().err == ""


def test_templates_escape_and_miss_no_value():
    page = html.render(
        "claims.html", claims={"summary": "<b>", "counts": [], "papers": [], "judged": [], "not_run": []}
    )
    assert "<title>Claims: &lt;b&gt;</title>" in page
    with pytest.raises(jinja2.UndefinedError, match="'claims' is undefined"):
        html.render("claims.html")


def test_the_digest_follows_the_texts_it_is_asked_about(tmp_path, monkeypatch):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text("a")
    (tmp_path / "tables.yaml").write_text("t")
    monkeypatch.setattr(html, "FOLDER", tmp_path)
    pages, both = html.digest_of_texts("pages"), html.digest_of_texts("pages", "tables.yaml")
    (tmp_path / "tables.yaml").write_text("u")
    assert html.digest_of_texts("pages") == pages and html.digest_of_texts("pages", "tables.yaml") != both
    (tmp_path / "pages" / "a.html").rename(tmp_path / "pages" / "b.html")
    assert html.digest_of_texts("pages") != pages


def test_a_file_becomes_an_address(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    assert html.data_uri(tmp_path / "t.csv") == "data:text/csv;base64," + base64.b64encode(b"a,b\n").decode()
