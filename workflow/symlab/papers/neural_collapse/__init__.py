"""The paper's card: how networks with weight decay collapse as they get deeper."""

from __future__ import annotations

from symlab.papers.neural_collapse.found import FOUND, HEADING, HEADLINE, SCALE, SUBJECTS, TERMS, THUMBNAIL
from symlab.papers.neural_collapse.settings import CriticalPenalty, Lemmas, PerturbedClasses, Runs
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment

_ROOM = "symlab.papers.neural_collapse"
_RUNS, _LAYERS, _SAMPLES = "collapse_runs.csv", "collapse_layers.csv", "collapse_samples.csv"

NEURAL_COLLAPSE = Paper(
    slug="neural-collapse",
    prefix="collapse",
    authors="Súkeník, Lampert, Mondelli",
    short="Súkeník et al.",
    title="Neural Collapse is Globally Optimal in Deep Regularized ResNets and Transformers",
    where="2025",
    link="https://arxiv.org/abs/2505.15239",
    scale=SCALE,
    subjects=SUBJECTS,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    thumbnail=THUMBNAIL,
    figures=(
        Figure("collapse-1", f"{_ROOM}.fig_01_depth", (_RUNS,)),
        Figure("collapse-2", f"{_ROOM}.fig_02_control", (_RUNS,)),
        Figure("collapse-loss", f"{_ROOM}.fig_loss", (_RUNS, "collapse_optima.csv")),
        Figure("collapse-certificate", f"{_ROOM}.fig_certificate", (_RUNS,)),
        Figure("collapse-critical", f"{_ROOM}.fig_critical", ("critical_penalty.csv",)),
        Figure("collapse-layers", f"{_ROOM}.fig_layers", (_LAYERS,)),
        Figure("collapse-few", f"{_ROOM}.fig_few", (_RUNS, _SAMPLES)),
        Figure("collapse-perturbed", f"{_ROOM}.fig_perturbed", ("perturbed_classes.csv",)),
        Figure("collapse-practice", f"{_ROOM}.fig_practice", (_RUNS,)),
        Figure("collapse-lemmas", f"{_ROOM}.fig_lemmas", ("free_features.csv", "scalar_depth.csv")),
    ),
    experiments=(
        Experiment(
            "neural_collapse.runs",
            Runs,
            f"{_ROOM}.trained_runs:minimise_depth",
            (_RUNS, _LAYERS, _SAMPLES, "collapse_optima.csv"),
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
            f"{_ROOM}.critical_penalty:find_critical_penalty",
            ("critical_penalty.csv",),
            datasets=True,
            gpu=True,
        ),
        Experiment(
            "neural_collapse.perturbed_classes",
            PerturbedClasses,
            f"{_ROOM}.perturbed_classes:train_perturbed_classes",
            ("perturbed_classes.csv",),
        ),
        Experiment(
            "neural_collapse.lemmas",
            Lemmas,
            f"{_ROOM}.lemmas:minimise_free_features",
            ("free_features.csv", "scalar_depth.csv"),
        ),
    ),
    captions={
        _RUNS: "Networks minimised to collapse, one row each, and of each depth a `reference` that was minimised for "
        "longer: the loss as `fit` and the penalties of `hidden` weights and of the `last` layer, the `gap` of their "
        "sum over the least that is known, the metrics NC1, NC2A, NC2B and NC3 with what they are made of, and NC1 and "
        "accuracy on test samples.",
        _LAYERS: "NC1 of the features after every layer.",
        "collapse_optima.csv": "The least loss that is known of each setting and depth, what gave it (`by`), and the "
        "least loss of free features (`free`), which no network can pass.",
        _SAMPLES: "What networks were trained on: number of samples, `rank` of inputs with a constant, and the NC1 "
        "that a linear map alone reaches (`linear_floor`).",
        "critical_penalty.csv": "The penalty of hidden weights above which branches of two-layer blocks die: "
        "`predicted` from networks without branches, and found by bisection from branches next to nothing (`born`) and "
        "from living ones (`dies`).",
        "perturbed_classes.csv": "Appendix C's inputs, one point a class and a perturbation of norm `eps`: NC1 of the "
        "first features (`NC1_in`) and of the last.",
        "free_features.csv": "Free features and a last layer, minimised from random starts (Lemma 4.2), and collapsed "
        "pairs at their best scale (its converse).",
        "scalar_depth.csv": "Residual networks of one dimension that give exp(a) x: the least squared weights, trained "
        "and in closed form.",
    },
)
