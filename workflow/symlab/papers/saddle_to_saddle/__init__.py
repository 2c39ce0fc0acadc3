"""The paper's card: how deep ReLU networks leave the saddle at the origin."""

from __future__ import annotations

from symlab.papers.saddle_to_saddle.found import FOUND, HEADING, HEADLINE, SCALE, TERMS, THUMBNAIL
from symlab.papers.saddle_to_saddle.settings import DataSpeeds, Descents, InitialScales, NearRankOne, Polygons
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment

_ROOM = "symlab.papers.saddle_to_saddle"
_POLYGON_RUNS = ("polygon_runs.csv", "polygon_curves.csv", "polygon_limits.csv")
_POLYGON_BEST = ("polygon_lifts.csv", "polygon_budget.csv")
_ESCAPE = ("escape_course.csv", "escape_layers.csv")

SADDLE_TO_SADDLE = Paper(
    slug="saddle-to-saddle",
    prefix="saddle",
    authors="Bantzis, Simon, Jacot",
    short="Bantzis et al.",
    title="Saddle-To-Saddle Dynamics in Deep ReLU Networks: Low-Rank Bias in the First Saddle Escape",
    where="2025",
    link="https://arxiv.org/abs/2505.21722",
    scale=SCALE,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    thumbnail=THUMBNAIL,
    figures=(
        Figure("saddle-1", f"{_ROOM}.fig_01_escape", _ESCAPE),
        Figure("saddle-2", f"{_ROOM}.fig_02_circle", _POLYGON_RUNS[:2]),
        Figure("saddle-3", f"{_ROOM}.fig_01_escape", _ESCAPE),
        Figure("saddle-4", f"{_ROOM}.fig_01_escape", _ESCAPE),
        Figure("saddle-5", f"{_ROOM}.fig_05_one_neuron", ("polygon_limits.csv",)),
        Figure("saddle-6", f"{_ROOM}.fig_02_circle", _POLYGON_RUNS[:2]),
        Figure("saddle-ratios", f"{_ROOM}.fig_ratios", _ESCAPE),
        Figure("saddle-growth", f"{_ROOM}.fig_growth", _ESCAPE[:1]),
        Figure("saddle-scales", f"{_ROOM}.fig_scales", ("initial_scales.csv",)),
        Figure("saddle-prop3.3", f"{_ROOM}.fig_near_rank_one", ("near_rank_one.csv",)),
        Figure("saddle-polygons", f"{_ROOM}.fig_polygons", ("polygon_runs.csv", "polygon_limits.csv")),
        Figure("saddle-depths", f"{_ROOM}.fig_depths", ("polygon_runs.csv", "polygon_limits.csv", "polygon_lifts.csv")),
        Figure("saddle-success", f"{_ROOM}.fig_success_law", ("polygon_runs.csv",)),
        Figure("saddle-budget", f"{_ROOM}.fig_budget", (*_ESCAPE, "polygon_budget.csv")),
        Figure("saddle-speeds", f"{_ROOM}.fig_speeds", ("escape_course.csv", "data_speeds.csv")),
        Figure("saddle-controls", f"{_ROOM}.fig_controls", _ESCAPE),
    ),
    experiments=(
        Experiment(
            "saddle_escape.polygons",
            Polygons,
            f"{_ROOM}.polygon_search:search_polygon",
            (*_POLYGON_RUNS, *_POLYGON_BEST),
            f"{_ROOM}.polygon_tables:tabulate_polygons",
            several=True,
        ),
        Experiment(
            "saddle_escape.descents",
            Descents,
            f"{_ROOM}.first_escape:train_from_origin",
            _ESCAPE,
            f"{_ROOM}.escape_tables:tabulate_escapes",
            several=True,
            datasets=True,
            gpu=True,
            minutes=600,
        ),
        Experiment(
            "saddle_escape.initial_scales",
            InitialScales,
            f"{_ROOM}.initial_scales:shrink_initial_weights",
            ("initial_scales.csv",),
            datasets=True,
        ),
        Experiment(
            "saddle_escape.data_speeds",
            DataSpeeds,
            f"{_ROOM}.data_speeds:search_data_speeds",
            ("data_speeds.csv",),
            datasets=True,
        ),
        Experiment(
            "saddle_escape.near_rank_one",
            NearRankOne,
            f"{_ROOM}.near_rank_one:perturb_rank_one",
            ("near_rank_one.csv",),
        ),
    ),
    captions={
        "escape_course.csv": "Networks trained from near the origin, one row a network and moment: loss, norms of "
        "weights and gradient, `s` (the sum of rate times |θ|^(L-2)) and, along the weights' direction, the escape "
        "`speed` and the `residual`, which is 0 along an escape direction.",
        "escape_layers.csv": "Their layers at the same moments: ten largest singular values, the ratios A, B and D of "
        "Theorem 3.1, of W_l - W_l(0) the ratio A (`A_change`) and the second over the first singular value, and what "
        "each layer takes from log(|X| |G| / s): by its norm, the rank of its inputs, what relu cuts, and how its "
        "weights are aligned with their inputs (`lost_norms`, `lost_rank`, `lost_cut`, `lost_alignment`).",
        "data_speeds.csv": "Escape speeds that descents on the sphere reach on the study's data set, one row a run; at "
        "depth 2 of one neuron, which no network of depth 2 exceeds and every deeper one can reach.",
        "initial_scales.csv": "Angles between the weights' directions in descents of the full and of the localized "
        "loss, for initial weights α times the same draw.",
        "near_rank_one.csv": "Ratios of the fastest escape direction for inputs uvᵀ + E, for each norm of E, and the "
        "bound of Proposition 3.3.",
        "polygon_runs.csv": "Escape directions found from random starts on regular polygons, one row a run: its "
        "`speed`, whether that is more than one neuron's (`outcome`), the second over the first singular value of each "
        "layer's weights (`second_l`) and the ratios A_l, B_l, D_l of Theorem 3.1.",
        "polygon_curves.csv": "The speed of each run along its steps.",
        "polygon_lifts.csv": "The speed of the fastest run of depth `of` and a width when it is made L deep by "
        "Proposition 3.2: a lower limit for networks of depth L.",
        "polygon_budget.csv": "Where the fastest run of each point, and Example 1, lose speed: terms by layer that sum "
        "to log(|X| |G| / s).",
        "polygon_limits.csv": "The largest speed of one neuron a layer on each polygon, and the certified limit of all "
        "networks of depth three.",
    },
)
