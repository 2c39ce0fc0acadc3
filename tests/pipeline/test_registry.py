"""What the papers' cards name exists, once, and goes together."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

import symlab
from symlab.measures import is_table
from symlab.measures.settings import Matching
from symlab.papers.permutation_invariance.settings import Widths
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, MEASURES, TABLES, maker_of, paper_of, settings_of_spec

PACKAGE = Path(symlab.__file__).parent
LINES = [*MEASURES.values(), *EXPERIMENTS.values(), *TABLES.values()]
FUNCTIONS = [
    *(line.function for line in (*MEASURES.values(), *TABLES.values())),
    *(function for line in EXPERIMENTS.values() for function in (line.compute, line.tables) if function),
]


@pytest.mark.parametrize("named", sorted(set(FUNCTIONS)))
def test_a_registered_function_is_in_its_module(named):
    module, _, function = named.partition(":")
    tree = ast.parse((PACKAGE.parent / Path(*module.split("."))).with_suffix(".py").read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda figure: figure.id)
def test_a_figure_has_a_file_and_tables_that_something_makes(figure):
    assert importlib.util.find_spec(figure.module) is not None
    assert figure.id.startswith(f"{paper_of(figure.id).prefix}-")
    number = re.fullmatch(r".+-(\d+)[a-z]?", figure.id)
    # Figures of one subject share a file, whose name has all their numbers.
    assert not number or re.search(rf"_0?{number[1]}[a-z]?_", figure.module)
    assert set(figure.tables) <= {"history.csv", *TABLES, *(output for line in LINES for output in outputs_of(line))}


def test_settings_come_back_from_their_specs():
    assert settings_of_spec("matching", Matching().spec()) == Matching()
    grids = [Widths(M=6, d=[8], m=[7], runs=runs) for runs in (2, 4)]
    assert settings_of_spec("teacher_student.widths", [grid.spec() for grid in grids]) == grids


def outputs_of(line):
    return getattr(line, "outputs", ())


def test_outputs_have_one_maker():
    outputs = [output for line in LINES for output in outputs_of(line)] + list(TABLES)
    assert len(outputs) == len(set(outputs))
    for measure in MEASURES.values():
        for needed in (*measure.needs, *measure.needs_if):
            assert not is_table(needed) and maker_of(needed).outputs
