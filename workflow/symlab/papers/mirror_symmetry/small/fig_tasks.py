"""Networks on one labelling after the other: what they still learn, and how many of their parameters are dead."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.small.fig_04_plasticity import NAMES
from symlab.papers.mirror_symmetry.small.plasticity import BIAS, DECAY, HADAMARD, NOISE, SKIP, SYRE, VANILLA
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, above, at_least
from symlab.study.facets import Panel, assign_looks, draw_grid
from symlab.study.tables import need

TABLE = "mirror_network_tasks.csv"
REMEDIES = NOISE, BIAS, DECAY, SYRE, SKIP


def _learned_and_dead(tables: Tables, style: Style) -> Figure:
    rows = need(tables, TABLE).assign(label=lambda of: of["variant"].map(NAMES))
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    options = {"unit": ("seed",)}
    grid = [
        Panel(rows, "task", "accuracy", {"xlabel": "task", "ylabel": "accuracy on the task"}, options=options),
        Panel(rows, "task", "dead", {"xlabel": "task", "ylabel": "dead share on arrival"}, options=options),
    ]
    return draw_grid([grid], looks, sharey=False)


def _at(rows: pd.DataFrame, task: int, column: str) -> Cases:
    return cases(rows[rows["task"] == task], column, ["variant"], "seed", "{variant}")


def _loss_against_vanilla(tables: Tables) -> list[Found]:
    rows = tables[TABLE]
    growth = (_at(rows, rows["task"].max(), "loss") / _at(rows, 1, "loss")).map(np.log10)
    return (growth.at(variant=HADAMARD) - growth.at(variant=VANILLA).keyed()).means()


def _dead_against_vanilla(tables: Tables) -> list[Found]:
    last = _at(tables[TABLE], tables[TABLE]["task"].max(), "dead")
    return (last.at(variant=HADAMARD) - last.at(variant=VANILLA).keyed()).means()


def remedies(tables: Tables) -> list[Found]:
    """Accuracy on the last task less vanilla's, of each remedy, a seed at a time."""
    last = _at(tables[TABLE], tables[TABLE]["task"].max(), "accuracy")
    return (last.where(lambda of: of.case.key["variant"] in REMEDIES) - last.at(variant=VANILLA).keyed()).means()


FIGURES = (
    Drawing(
        "mirror-tasks",
        "Networks on one labelling after the other",
        "Networks of one hidden layer of relu on images whose classes are permuted anew for each task: accuracy on a "
        "task's images at its end, and the share of parameters with a gradient of at most 1e-6 when a task arrives. "
        "Hadamard has a product for every parameter, the skip one added to a plain parameter; noise, bias and decay as "
        "in Figure 4. Mean and standard deviation over seeds.",
        _learned_and_dead,
        seen=Sentence(
            "When the last task arrives {dead:%} more of the products are dead than of plain parameters.",
            {"dead": at("mirror-tasks-dead")},
        ),
        differs="Not in the paper, whose Figure 4 is of a linear regressor.",
    ),
)
_claim = partial(Claim, tables=(TABLE,))
CLAIMS = (
    _claim(
        id="mirror-tasks-loss",
        statement="Networks of products reach a higher loss on later tasks, compared with vanilla ones",
        quantity="log10 of the loss reached on the last task over that on the first, minus vanilla's, mean over seeds",
        bound=above(0),
        owner="derived",
        origin="ours",
        reason="The paper says it of symmetries in general and shows a linear regressor.",
        measure=_loss_against_vanilla,
    ),
    _claim(
        id="mirror-tasks-dead",
        statement="More parameters of networks of products are dead when the last task arrives",
        quantity="share dead when the last task arrives, products minus vanilla, mean over seeds",
        bound=above(0),
        owner="derived",
        origin="ours",
        reason="As in Figure 4; of vanilla networks those of constant pixels and of dead neurons are.",
        measure=_dead_against_vanilla,
    ),
    _claim(
        id="mirror-tasks-remedies",
        statement="Noise, a bias, decay, both, and a skip keep networks of products as able to learn as vanilla ones",
        quantity="accuracy on the last task less that of vanilla networks, mean over seeds",
        bound=at_least(-0.02),
        owner="ours",
        origin="ours",
        reason="Two hundredths are our word for as able; the paper says it of noise and of a bias.",
        measure=remedies,
    ),
)
