"""All that the kernel's lines and the papers' cards register, by name."""

from typing import Any

from symlab.measures import KERNEL, KERNEL_TABLES, Measure, Table
from symlab.papers import PAPERS
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment

MEASURES: dict[str, Measure] = {
    measure.name: measure for measure in (*KERNEL, *(each for paper in PAPERS for each in paper.measures))
}
TEXT_COLUMNS: frozenset[str] = frozenset(column for measure in MEASURES.values() for column in measure.text)
"""Columns of names, in tables of measures and in those made from them."""
EXPERIMENTS: dict[str, Experiment] = {
    experiment.key: experiment for paper in PAPERS for experiment in paper.experiments
}
TABLES: dict[str, Table] = {
    table.name: table for table in (*KERNEL_TABLES, *(each for paper in PAPERS for each in paper.tables))
}
FIGURES: dict[str, Figure] = {figure.id: figure for paper in PAPERS for figure in paper.figures}


def paper_of(figure: str) -> Paper:
    """The paper that a figure is from.

    Raises:
        KeyError: no card has that figure.
    """
    return {each.id: paper for paper in PAPERS for each in paper.figures}[figure]


def settings_of_spec(key: str, spec: Any) -> Any:
    """The settings under a key of a study, a list of them where there are several, from their specs."""
    kinds = {measure.key: measure.settings for measure in MEASURES.values()}
    kinds |= {experiment.key: experiment.settings for experiment in EXPERIMENTS.values()}
    return [kinds[key].from_spec(each) for each in spec] if isinstance(spec, list) else kinds[key].from_spec(spec)


def maker_of(output: str) -> Measure:
    """The measure that writes a file, such as ``moments.safetensors``."""
    return next(measure for measure in MEASURES.values() if output in measure.outputs)


def switches(table: str) -> tuple[str, ...]:
    """The keys of a study that a table needs; none for one that every study of trained networks has."""
    if table in TABLES:
        return tuple(dict.fromkeys(key for name in TABLES[table].inputs for key in switches(name)))
    makers: list[Measure | Experiment] = [*MEASURES.values(), *EXPERIMENTS.values()]
    return tuple(maker.key for maker in makers if table in maker.outputs)
