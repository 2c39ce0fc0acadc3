"""Every figure of the registry draws, quietly, with every axis labelled, and refuses tables that lack what it shows."""

from __future__ import annotations

import subprocess
import sys
import warnings
from functools import cache
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from docutils.core import publish_doctree
from matplotlib import rcParams
from matplotlib.image import imread
from symlab.figures import FIGURES, draw

from symlab.errors import UserError
from symlab.plotting.style import save

STYLE = {"font_size": 8, "dpi": 100, "palette": "colorblind"}
CAPTIONS = Path(__file__).parents[3] / "workflow" / "report" / "figures"


@pytest.fixture(scope="module")
def drawn(tables_of):
    """Each figure in the default style, drawn once, any warning being an error."""

    @cache
    def once(figure_id):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure = draw(figure_id, tables_of(figure_id), {})
            figure.canvas.draw()
        return figure

    return once


WITH_OPTIONAL = [figure_id for figure_id, spec in FIGURES.items() if spec.optional]


@pytest.fixture(scope="module")
def drawn_with_optional(optional_tables_of):
    """The figures that show more with their optional tables, as ``drawn``."""

    @cache
    def once(figure_id):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure = draw(figure_id, optional_tables_of(figure_id), {})
            figure.canvas.draw()
        return figure

    return once


@pytest.mark.parametrize("figure_id", WITH_OPTIONAL)
def test_optional_tables_add_panels_that_are_as_tidy(figure_id, drawn, drawn_with_optional):
    figure = drawn_with_optional(figure_id)
    assert len(figure.axes) > len(drawn(figure_id).axes)
    for axis in figure.axes:
        labels = [axis.get_xlabel(), axis.get_ylabel()]
        assert any(labels) if axis.get_label() == "<colorbar>" else all(labels)
    check_texts(figure)


@pytest.mark.parametrize("figure_id", ["12", "16", "thm4.8"])
def test_an_empty_optional_table_is_as_none(figure_id, tables_of):
    (name,) = FIGURES[figure_id].optional
    tables = {table: tables_of(figure_id)[table] for table in FIGURES[figure_id].tables}
    pixels = []
    for given in (tables, tables | {name: pd.DataFrame()}):
        figure = draw(figure_id, given, {})
        figure.canvas.draw()
        pixels.append(figure.canvas.buffer_rgba().tobytes())
    assert pixels[0] == pixels[1]


@pytest.mark.parametrize("figure_id", FIGURES)
def test_draws_with_every_axis_labelled_and_leaves_no_trace(figure_id, drawn):
    before = dict(rcParams)
    figure = drawn(figure_id)
    assert figure.axes
    for axis in figure.axes:
        labels = [axis.get_xlabel(), axis.get_ylabel()]
        # A colour bar has one axis only.
        assert any(labels) if axis.get_label() == "<colorbar>" else all(labels)
    assert plt.get_fignums() == []
    assert dict(rcParams) == before


def visible_texts(figure):
    for axis in figure.axes:
        yield from (axis.title, axis._left_title, axis.xaxis.label, axis.yaxis.label, *axis.texts)
        for side in (axis.xaxis, axis.yaxis):
            low, high = sorted(side.get_view_interval())
            ticks = [tick for tick in side.get_major_ticks() if low <= tick.get_loc() <= high]
            yield from (label for tick in ticks for label in (tick.label1, tick.label2))
    for legend in figure.legends:
        yield from (legend.get_title(), *legend.get_texts())
    yield from figure.texts


def check_texts(figure):
    texts = [text for text in visible_texts(figure) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for (name, box), (other_name, other) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(other.padded(-1)), f"{name!r} overlaps {other_name!r}"
    for name, box in boxes:
        assert figure.bbox.padded(1).count_contains(box.corners()) == 4, f"{name!r} leaves the figure"


@pytest.mark.parametrize("figure_id", FIGURES)
def test_no_two_texts_overlap_and_none_leaves_the_figure(figure_id, drawn):
    check_texts(drawn(figure_id))


RESNET50 = [
    f"{part}{group}{block}"
    for group, n in enumerate((3, 4, 6, 3), start=1)
    for part, block in (("stream", ""), *(("inner", f".{each + 1}") for each in range(n)))
]
VIT = ["stream", *(name for b in range(3) for name in (f"blocks.{b}.attention.query:0", f"mlp{b + 1}"))]
NAMED_BY_USERS = ["features.0", "blocks.0.attention.query:1", "head", "hidden_part.0", "a$b$c", "_", "x" * 70]


@pytest.mark.parametrize("points", [RESNET50, VIT, NAMED_BY_USERS, NAMED_BY_USERS[:2], [0, 2], ["features.0"]])
def test_groups_of_any_network_get_readable_panels(points, objectives_of):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw("8", {"matching.csv": objectives_of(points, (0.0, 2.0))}, {})
        figure.canvas.draw()
    assert len(figure.axes) == len(points)
    check_texts(figure)


@pytest.mark.parametrize("figure_id", ["4", "5"])
def test_the_same_tables_give_the_same_files(figure_id, tables_of, tmp_path):
    contents = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        figure = draw(figure_id, tables_of(figure_id), STYLE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            save(figure, folder / "figure.pdf", folder / "figure.png", 80)
        assert sorted(path.name for path in folder.iterdir()) == ["figure.pdf", "figure.png"]
        contents.append([(folder / name).read_bytes() for name in ("figure.pdf", "figure.png")])
    assert contents[0] == contents[1]
    height, width = imread(tmp_path / "first" / "figure.png").shape[:2]
    assert (width, height) == pytest.approx(figure.get_size_inches() * 80, abs=1)


@pytest.mark.parametrize("figure_id", FIGURES)
def test_missing_and_empty_tables_name_the_study_setting(figure_id, tables_of):
    name = FIGURES[figure_id].tables[0]
    for tables in ({}, {name: tables_of(figure_id)[name].iloc[:0]}):
        with pytest.raises(UserError, match=rf"Figure {figure_id} cannot be drawn: .*{name}.* set [\w.]+ in"):
            draw(figure_id, tables, STYLE)


def only(table: pd.DataFrame, *schemes: str) -> pd.DataFrame:
    return table[table["scheme"].isin(schemes)]


@pytest.mark.parametrize("figure_id", ["3a", "3b", "3c", "5", "8", "9", "10", "13", "15", "17", "18"])
def test_studies_without_w_variants_are_refused(figure_id, tables_of):
    name = FIGURES[figure_id].tables[0]
    tables = tables_of(figure_id)
    # Some tables hold W alone, so some other scheme's rows stand in for a study without W.
    others = (
        tables[name].assign(scheme="syre")
        if figure_id in ("3b", "5", "9", "13", "15")
        else only(tables[name], "standard", "syre")
    )
    with pytest.raises(UserError, match=r"studies\.\w+\.variants"):
        draw(figure_id, {name: others}, STYLE)


@pytest.mark.parametrize(("figure_id", "scheme"), [("16", "standard"), ("19", "syre")])
def test_heat_maps_of_absent_variants_are_refused(figure_id, scheme, swap_costs):
    with pytest.raises(UserError, match=rf"no variant that is {scheme}"):
        draw(figure_id, {"swap_costs.parquet": swap_costs[swap_costs["scheme"] != scheme]}, STYLE)


@pytest.mark.parametrize(
    ("figure_id", "change", "setting"),
    [
        ("3a", lambda table: table[table["sigma_F"].isin([1.0])], "sigma_F"),
        ("3b", lambda table: table[table["sigma_F"].isin([2.0])], "sigma_F"),
        ("3c", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("3c", lambda table: table[table["sigma_F"] != 0], "sigma_F 0"),
        ("4", lambda table: table[table["split"] == "test"], "interpolation.splits"),
        ("4", lambda table: table[~table["aligned"]], "interpolation.aligned"),
        ("4b", lambda table: table[~table["aligned"]], "interpolation.aligned"),
        ("5", lambda table: table.assign(k=float("nan")), "gmm"),
        ("6", lambda table: table[table["split"] == "train"], "interpolation.splits"),
        ("7", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("9", lambda table: table[table["sigma_F"].isin([2.0])], "sigma_F"),
        ("10", lambda table: table[table["family"] != "fractions"], "fixed_fraction"),
        ("11", lambda table: table[table["m"] == 16], "centre_gaps.widths"),
        ("15", lambda table: table.assign(k=float("nan")), "gmm"),
        ("15", lambda table: table[(table["j"] == table["i"] + 1) & (table["i"] % 2 == 0)], "ridge.block"),
        ("20", lambda table: table[table["split"] == "test"], "interpolation.splits"),
        ("21", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("ridge", lambda table: table[table["beta"] == 0.1], r"studies.digits.ridge.beta"),
        ("thm4.4", lambda table: table[table["scheme"] == "standard"], "no variant with masks"),
        ("sec4.5", lambda table: table[table["sigma_F"].isin([1.0])], "sigma_F"),
        ("sec4.5", lambda table: table[table["scheme"] == "standard"], "no W-asymmetric variant"),
        ("sec4.5", lambda table: table.assign(train_accuracy=float("nan")), "no classes"),
        ("thm4.5", lambda table: table[~(table["sigma_F"] > 0)], "output permutations.*sigma_F above 0"),
        ("thm4.7", lambda table: table[~(table["sigma_F"] > 0)], "input permutations.*sigma_F above 0"),
        ("thm4.7", lambda table: table[table["side"] == "output"], "input permutations"),
        ("thm4.8", lambda table: table[~(table["sigma_F"] > 0)], "sigma_F above 0"),
        ("thm5.1", lambda table: table[~(table["sigma_F"] > 0)], "sigma_F above 0"),
    ],
)
def test_a_missing_setting_is_named(figure_id, change, setting, tables_of):
    name = FIGURES[figure_id].tables[0]
    with pytest.raises(UserError, match=setting):
        draw(figure_id, {name: change(tables_of(figure_id)[name])}, STYLE)


def test_an_unknown_number_lists_the_known_ones():
    with pytest.raises(UserError, match=r"no figure '99'.*3a, 3b, 3c, 4, 4b, 5"):
        draw("99", {}, STYLE)


def test_an_unknown_palette_is_a_user_error(matching):
    with pytest.raises(UserError, match=r"style\.palette is 'mud'"):
        draw("3a", {"matching.csv": matching}, {"palette": "mud"})


def test_every_figure_has_a_caption_and_no_caption_is_left_over():
    assert {path.stem for path in CAPTIONS.glob("*.rst")} == set(FIGURES)


@pytest.mark.parametrize("figure_id", FIGURES)
def test_captions_are_clean_restructured_text(figure_id):
    text = (CAPTIONS / f"{figure_id}.rst").read_text(encoding="utf-8")
    rendered = text.format(study="the_study")
    assert "the_study" in rendered
    publish_doctree(rendered, settings_overrides={"halt_level": 2, "report_level": 2})


def test_the_registry_imports_neither_torch_nor_matplotlib_nor_pandas():
    code = "import sys, symlab.figures; print({'torch', 'matplotlib', 'seaborn', 'pandas'} & sys.modules.keys())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "set()"
