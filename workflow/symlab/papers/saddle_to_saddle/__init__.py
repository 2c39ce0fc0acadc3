"""The paper's card: how deep ReLU networks leave the saddle at the origin."""

from symlab.papers.saddle_to_saddle.found import FOUND, HEADING, HEADLINE, SCALE, SUBJECTS, TERMS, THUMBNAIL
from symlab.papers.saddle_to_saddle.settings import DataSpeeds, Descents, NearRankOne, Polygons
from symlab.study.card import Figure, Paper
from symlab.study.experiment import experiments_under

_ROOM = "symlab.papers.saddle_to_saddle"
_POLYGON_RUNS = ("polygon_runs.csv", "polygon_curves.csv", "polygon_limits.csv")
_POLYGON_BEST = ("polygon_lifts.csv", "polygon_budget.csv")
_EVENTS = ("escape_events.csv", "escape_layers.csv")
_COURSE = ("escape_course.csv", "escape_spectra.csv", "escape_next.csv")
_asked = experiments_under("saddle_escape", _ROOM)

SADDLE_TO_SADDLE = Paper(
    slug="saddle-to-saddle",
    prefix="saddle",
    authors="Bantzis, Simon, Jacot",
    short="Bantzis et al.",
    title="Saddle-To-Saddle Dynamics in Deep ReLU Networks: Low-Rank Bias in the First Saddle Escape",
    where="2025",
    link="https://arxiv.org/abs/2505.21722",
    scale=SCALE,
    subjects=SUBJECTS,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    thumbnail=THUMBNAIL,
    figures=(
        Figure("saddle-1", f"{_ROOM}.fig_01_03_04_escape", (*_EVENTS, *_COURSE)),
        Figure("saddle-2", f"{_ROOM}.fig_02_05_06_circle", _POLYGON_RUNS[:2]),
        Figure("saddle-3", f"{_ROOM}.fig_01_03_04_escape", (*_EVENTS, *_COURSE)),
        Figure("saddle-4", f"{_ROOM}.fig_01_03_04_escape", (*_EVENTS, *_COURSE)),
        Figure("saddle-5", f"{_ROOM}.fig_02_05_06_circle", ()),
        Figure("saddle-6", f"{_ROOM}.fig_02_05_06_circle", _POLYGON_RUNS[:2]),
        Figure("saddle-ladder", f"{_ROOM}.fig_ladder", _EVENTS),
        Figure("saddle-controls", f"{_ROOM}.fig_ladder", _EVENTS),
        Figure("saddle-ratios", f"{_ROOM}.fig_layers", _EVENTS),
        Figure("saddle-time", f"{_ROOM}.fig_time", _EVENTS[:1]),
        Figure("saddle-speeds", f"{_ROOM}.fig_time", (*_EVENTS[:1], "data_speeds.csv")),
        Figure("saddle-next", f"{_ROOM}.fig_01_03_04_escape", ("escape_next.csv",)),
        Figure("saddle-budget", f"{_ROOM}.fig_layers", (*_EVENTS, "polygon_budget.csv")),
        Figure("saddle-prop3.3", f"{_ROOM}.fig_layers", ("near_rank_one.csv",)),
        Figure("saddle-polygons", f"{_ROOM}.fig_polygons", _POLYGON_RUNS[::2]),
        Figure("saddle-depths", f"{_ROOM}.fig_polygons", (*_POLYGON_RUNS[::2], "polygon_lifts.csv")),
        Figure("saddle-success", f"{_ROOM}.fig_polygons", ("polygon_runs.csv",)),
    ),
    experiments=(
        _asked(
            "polygons",
            Polygons,
            "sphere_searches:search_polygon",
            (*_POLYGON_RUNS, *_POLYGON_BEST),
            tables=f"{_ROOM}.polygon_tables:tabulate_polygons",
            several=True,
        ),
        _asked("descents", Descents, "descents:descend_from_origin", (*_EVENTS, *_COURSE), several=True, datasets=True),
        _asked("data_speeds", DataSpeeds, "sphere_searches:search_data_speeds", ("data_speeds.csv",), datasets=True),
        _asked("near_rank_one", NearRankOne, "sphere_searches:perturb_rank_one", ("near_rank_one.csv",)),
    ),
    captions={
        "escape_events.csv": "Networks that leave the origin, one row a network and drop of the loss (`event`, a "
        "share of log k; 0 is the start): gradients computed so far, `s` (the sum of rate times |θ|^(L-2)), norm "
        "and, along the direction of the weights, the escape `speed` and the `residual`, which is 0 along an escape "
        "direction; the fastest neuron's speed (`one_neuron`) and the first layer's `cosine` to it.",
        "escape_layers.csv": "Their layers at the same moments, 0 being the inputs: second over first singular value, "
        "of W_l - W_l(0) the ratio A (`A_change`), the ratios B and D of Theorem 3.1, the share of one sign in the "
        "first input direction (`one_sign`), how far W_{l+1}ᵀ W_{l+1} is from W_l W_lᵀ (`strong`; `drift`, by how much "
        "its diagonal has changed), and what each layer takes from log(|X| |G| / s).",
        "escape_course.csv": "Their loss (`drop`), `s`, norms of weights and gradient (`slope`) along the way.",
        "escape_spectra.csv": "The ten largest singular values of every layer of one network along the way.",
        "escape_next.csv": "One row a network: whether it reached the last drop (`left`); of runs beyond the first "
        "escape the speed of one new neuron at the second plateau (`next_speed`), and of what the weights have "
        "gained since, speed, `cosine` to that neuron and second over first singular value.",
        "data_speeds.csv": "Escape speeds that descents on the sphere reach on the study's data set, one row a run; at "
        "depth 2 of one neuron, which no network of depth 2 exceeds and every deeper one can reach.",
        "near_rank_one.csv": "Ratios of the fastest escape direction for inputs uvᵀ + E, for each norm of E, and the "
        "bound of Proposition 3.3.",
        "polygon_runs.csv": "Escape directions found from random starts on regular polygons, one row a run: its "
        "`speed`, whether that is more than one neuron's (`outcome`), and the second over the first singular value of "
        "each layer's weights (`second_l`).",
        "polygon_curves.csv": "The speed of each run along its steps.",
        "polygon_lifts.csv": "The speed of the fastest run of depth `of` and a width when it is made L deep by "
        "Proposition 3.2: a lower limit for networks of depth L.",
        "polygon_budget.csv": "Where the fastest run of each point, and Example 1, lose speed: terms by layer that sum "
        "to log(|X| |G| / s).",
        "polygon_limits.csv": "The largest speed of one neuron a layer on each polygon, and the certified limit of all "
        "networks of depth three.",
    },
)
