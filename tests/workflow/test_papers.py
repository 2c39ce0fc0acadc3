"""A paper is a folder and its line in the registry: without them, the others' studies run as before."""

import importlib
import shutil

import pytest

from symlab.papers import PAPERS
from symlab.study.card import Paper

REGISTRY = "workflow/symlab/papers/__init__.py"


def rooms():
    """The folder of each paper and its card."""
    return {paper.figures[0].module.split(".")[2]: paper for paper in PAPERS}


ROOMS = rooms()


def remove(project, room):
    """Delete a paper's folder, its line in the registry and the studies that draw its figures."""
    shutil.rmtree(project.folder / "workflow/symlab/papers" / room)
    card = importlib.import_module(f"symlab.papers.{room}")
    (name,) = (name for name, value in vars(card).items() if isinstance(value, Paper))
    project.edit(REGISTRY, lambda text: "".join(line for line in text.splitlines(True) if name not in line))
    ids = {figure.id for figure in ROOMS[room].figures}
    project.edit_config(
        lambda config: config.update(
            studies={key: study for key, study in config["studies"].items() if not ids & set(study.get("figures", ()))}
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_no_other_module_needs_a_paper(fresh, room):
    remove(fresh, room)
    planned = fresh.plan()
    assert planned["claims"] == planned["report"] == 1


@pytest.mark.slow
def test_the_other_papers_run_without_the_first_one(fresh, finished_run):
    """Its measures and tables are the most, and once were everywhere; that rooms do not import each other is linted."""
    remove(fresh, "neuron_identifiability")
    fresh.run("all")
    left = [name for name in ("digits", "students", "origin", "collapse", "mirrors") if (fresh.results / name).exists()]
    assert len(left) == len(ROOMS) - 1
    for study in left:
        fresh.assert_same_results(finished_run, f"{study}/**/*")
