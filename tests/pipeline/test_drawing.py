"""A job of figures: what cannot be drawn says why, and a fault at one hides no other and is told."""

import runpy
from types import SimpleNamespace

import pandas as pd
import pytest

from symlab.artifacts import ArtifactError, write_table
from symlab.errors import UserError
from symlab.pipeline import drawing
from symlab.pipeline.docs import ROOT
from symlab.pipeline.drawing import Text, draw_sentence, places_of_panels
from symlab.pipeline.html import Drawings
from symlab.plotting.settings import Style
from symlab.plotting.style import panels
from symlab.study.card import Drawing


def lacks(tables, style):
    raise UserError("it needs two depths.")


def breaks(tables, style):
    return tables["a.csv"].set_index("N").loc[8]


def breaks_when_written(tables, style):
    figure = draw_sentence("so far all is well")
    figure.axes[0].set_title("$\\nothing that there is$")
    return figure


def drawn(tables, style):
    return draw_sentence("drawn")


@pytest.fixture
def job(tmp_path, monkeypatch):
    """What Snakemake hands to the script, for figures each of which goes another way."""
    ways = {"a-1": lacks, "a-2": breaks, "a-3": breaks_when_written, "a-4": drawn}
    monkeypatch.setattr(drawing, "FIGURES", dict.fromkeys(ways))
    cards = iter([Drawing("About it", "Of `{study}`", way, id=name) for name, way in ways.items()] * 3)
    monkeypatch.setattr(drawing, "drawing_of", lambda _: next(cards))
    monkeypatch.setattr("symlab.pipeline.job._end_with_snakemake", lambda: None)
    table = tmp_path / "tables" / "a.csv"
    write_table(table, pd.DataFrame({"N": [6]}))
    figures = [str(tmp_path / "figures" / f"{name}.svg") for name in ways]
    params = SimpleNamespace(study="s", style=Style().spec(), code=dict.fromkeys(ways, "code"))
    output = SimpleNamespace(svg=figures)
    return SimpleNamespace(input=[str(table)], output=output, params=params, log=[str(tmp_path / "figures.log")])


def run(job):
    runpy.run_path(str(ROOT / "workflow" / "scripts" / "figures.py"), init_globals={"snakemake": job})


def test_a_fault_at_a_figure_hides_no_other_and_ends_the_job(job, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(job)
    told = capsys.readouterr().err
    assert told.startswith("Error: 2 figures could not be drawn: a-2 (KeyError: 8); a-3 (ValueError: ")
    log = (tmp_path / "figures.log").read_text()
    assert "in breaks" in log and "KeyError: 8" in log and "a-4 drawn" in log
    beside = tmp_path / "figures_with_errors"
    texts = {name: Text.read(beside / f"{name}.json") for name in ("a-1", "a-2", "a-3", "a-4")}
    assert texts["a-1"].undrawn == "a-1 cannot be drawn: it needs two depths." and not texts["a-4"].undrawn
    for name in ("a-2", "a-3"):
        # Without a digest, it is drawn again by the next job even if that finds it.
        assert (
            texts[name].undrawn == f"{name} could not be drawn for a fault of the program."
            and not texts[name].made_from
        )
    assert len(list(beside.glob("*.svg"))) == 4 and texts["a-4"].made_from


def test_a_job_without_faults_leaves_no_others_behind(job, tmp_path, monkeypatch):
    (tmp_path / "figures_with_errors").mkdir()
    monkeypatch.setattr(drawing, "drawing_of", lambda _: Drawing("About it", "", drawn, id="a"))
    run(job)
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 4 and not (tmp_path / "figures_with_errors").exists()
    # Of figures that are there one that lacks a file is drawn again, and no other.
    kept, gone, other = (tmp_path / f"figures/{name}" for name in ("a-1.svg", "a-2.pdf", "a-3.svg"))
    kept.write_text("as it was"), gone.unlink(), other.write_text("by other code")
    job.params.code["a-3"] = "changed"
    run(job)
    assert kept.read_text() == "as it was" and gone.stat().st_size and "by other code" not in other.read_text()


def test_a_disk_that_takes_no_figure_ends_the_job_at_once(job, tmp_path, capsys):
    (tmp_path / "figures").write_text("a file where the folder should be")
    with pytest.raises(SystemExit):
        run(job)
    assert "cannot be written" in capsys.readouterr().err


def test_a_damaged_table_ends_the_job_at_once(job, tmp_path, monkeypatch, capsys):
    def damaged(tables, style):
        raise ArtifactError("a.csv is damaged. Delete it and run again.")

    monkeypatch.setattr(drawing, "drawing_of", lambda _: Drawing("About it", "", damaged, id="a"))
    with pytest.raises(SystemExit):
        run(job)
    assert capsys.readouterr().err == "Error: a.csv is damaged. Delete it and run again.\n"
    assert not [*tmp_path.rglob("*.svg")]


def test_places_of_panels_are_points_from_the_upper_left_corner():
    figure, axes = panels(2, 1, 3, 4)
    figure.set_layout_engine("none")
    for axis, bottom in zip(axes.flat, (0.75, 0.25), strict=True):
        axis.set_position([0.5, bottom, 0.25, 0.125])
        axis.set_axis_off()
    width = 72 * figure.get_figwidth()
    # Of 4 inches, 288 points, the upper one's upper edge is at 7/8.
    expected = [[width / 2, 36, width / 4, 36], [width / 2, 180, width / 4, 36]]
    for found, numbers in zip(places_of_panels(figure), expected, strict=True):
        assert found == pytest.approx(numbers, abs=0.1)


def test_drawings_of_a_page_keep_their_own_names_and_share_their_letters():
    """Two of them cut at areas of one name: each has to be cut at its own."""
    letter = '<path id="n2" d="M 0 1" transform="scale(0.015625)"/>'
    drawn = '<svg><defs>{}</defs><clipPath id="n1"/><g clip-path="url(#n1)"><use xlink:href="#n2"/></g></svg>'
    drawings = Drawings()
    found = [drawings.add(drawn.format(letter), name) for name in ("a", "b")]
    parts = '<clipPath id="{0}-n1"/><g clip-path="url(#{0}-n1)"><use href="#l0"/></g>'
    assert found == [parts.format(name) for name in ("a", "b")]
    outline = '<path id="l0" d="M 0 1" transform="scale(.015625)"/>'
    assert str(drawings.outlines()).count("<path") == 1 and outline in drawings.outlines()
