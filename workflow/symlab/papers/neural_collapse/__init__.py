"""The paper's card: how networks with weight decay collapse as they get deeper."""

from __future__ import annotations

from symlab.papers.neural_collapse.found import FOUND, HEADING, HEADLINE, SCALE, TERMS, THUMBNAIL
from symlab.papers.neural_collapse.settings import CriticalPenalty, Growth, Hysteresis, PerturbedClasses, Runs
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment

_ROOM = "symlab.papers.neural_collapse"
_COURSE, _LAYERS = ("collapse_course.csv",), ("collapse_layers.csv",)

NEURAL_COLLAPSE = Paper(
    slug="neural-collapse",
    prefix="collapse",
    authors="Súkeník, Lampert, Mondelli",
    short="Súkeník et al.",
    title="Neural Collapse is Globally Optimal in Deep Regularized ResNets and Transformers",
    where="2025",
    link="https://arxiv.org/abs/2505.15239",
    scale=SCALE,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    thumbnail=THUMBNAIL,
    figures=(
        Figure("collapse-1", f"{_ROOM}.fig_01_depth", _COURSE),
        Figure("collapse-2", f"{_ROOM}.fig_01_depth", _COURSE),
        Figure("collapse-certificate", f"{_ROOM}.fig_certificate", _COURSE),
        Figure("collapse-loss", f"{_ROOM}.fig_loss", _COURSE),
        Figure("collapse-critical", f"{_ROOM}.fig_critical", (*_COURSE, "critical_penalty.csv")),
        Figure("collapse-growth", f"{_ROOM}.fig_growth", ("collapse_growth.csv",)),
        Figure("collapse-layers", f"{_ROOM}.fig_layers", _LAYERS),
        Figure("collapse-few", f"{_ROOM}.fig_few", (*_COURSE, "collapse_samples.csv")),
        Figure("collapse-perturbed", f"{_ROOM}.fig_perturbed", ("perturbed_classes.csv",)),
    ),
    experiments=(
        Experiment(
            "neural_collapse.runs",
            Runs,
            f"{_ROOM}.trained_runs:train_to_collapse",
            (*_COURSE, *_LAYERS, "collapse_samples.csv"),
            f"{_ROOM}.run_tables:tabulate_runs",
            several=True,
            datasets=True,
            gpu=True,
            minutes=600,
            memory_mb=4000,
        ),
        Experiment(
            "neural_collapse.critical_penalty",
            CriticalPenalty,
            f"{_ROOM}.critical_penalty:predict_critical_penalty",
            ("critical_penalty.csv",),
            datasets=True,
        ),
        Experiment(
            "neural_collapse.growth",
            Growth,
            f"{_ROOM}.growth:grow_by_splitting",
            ("collapse_growth.csv",),
            several=True,
            datasets=True,
            gpu=True,
        ),
        Experiment(
            "neural_collapse.hysteresis",
            Hysteresis,
            f"{_ROOM}.hysteresis:raise_penalty",
            ("critical_hysteresis.csv",),
            datasets=True,
            gpu=True,
        ),
        Experiment(
            "neural_collapse.perturbed_classes",
            PerturbedClasses,
            f"{_ROOM}.perturbed_classes:train_perturbed_classes",
            ("perturbed_classes.csv",),
        ),
    ),
    captions={
        "collapse_course.csv": "Networks trained to collapse, one row a network and moment: the loss as `fit` and the "
        "penalties of `hidden` weights and of the `last` layer, and the metrics NC1, NC2A, NC2B and NC3 with what they "
        "are made of.",
        "collapse_layers.csv": "NC1 of the features after every layer at the end of training.",
        "collapse_growth.csv": "Networks grown by splitting their blocks, right after each split and trained on: "
        "losses and metrics.",
        "critical_penalty.csv": "The penalty of hidden weights above which branches of two-layer blocks die, predicted "
        "from networks without branches.",
        "critical_hysteresis.csv": "Networks whose branches live, trained on at larger penalties of hidden weights: "
        "squared `weights` of a block at the end.",
        "perturbed_classes.csv": "Appendix C's inputs, one point a class and a perturbation of norm `eps`: NC1 of the "
        "first features (`NC1_in`) and of the last.",
        "collapse_samples.csv": "What networks were trained on: number of samples, `rank` of inputs with a constant, "
        "and the NC1 that a linear map alone reaches (`linear_floor`).",
    },
)
