"""The paper's card: how networks with weight decay collapse as they get deeper."""

from typing import Any

from symlab.papers.neural_collapse.found import FOUND, HEADING, HEADLINE, SCALE, SUBJECTS, TERMS, THUMBNAIL
from symlab.papers.neural_collapse.settings import CriticalPenalty, Lemmas, PerturbedClasses, Runs
from symlab.study.card import Figure, Paper
from symlab.study.experiment import experiments_under

_ROOM = "symlab.papers.neural_collapse"
_RUNS, _LAYERS, _SAMPLES, _OPTIMA = (f"collapse_{name}.csv" for name in ("runs", "layers", "samples", "optima"))
_CRITICAL, _PERTURBED = "critical_penalty.csv", "perturbed_classes.csv"
_FEATURES, _SCALAR = "free_features.csv", "scalar_depth.csv"
_OF_RUNS = (_RUNS, _LAYERS, _SAMPLES, _OPTIMA)
_ON_DATA: dict[str, Any] = {"datasets": True, "gpu": True}
_LONG: dict[str, Any] = {"tables": f"{_ROOM}.run_tables:tabulate_runs", "minutes": 600, "memory_mb": 4000}
_asked = experiments_under("neural_collapse", _ROOM)

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
    largest="collapse_scratch",
    thumbnail=THUMBNAIL,
    figures=(
        Figure("collapse-1", f"{_ROOM}.fig_01_02_depth", (_RUNS,)),
        Figure("collapse-2", f"{_ROOM}.fig_01_02_depth", (_RUNS,)),
        Figure("collapse-loss", f"{_ROOM}.fig_settings", (_RUNS,)),
        Figure("collapse-certificate", f"{_ROOM}.fig_beyond", (_RUNS,)),
        Figure("collapse-critical", f"{_ROOM}.fig_beyond", (_CRITICAL,)),
        Figure("collapse-layers", f"{_ROOM}.fig_settings", (_LAYERS, _RUNS)),
        Figure("collapse-few", f"{_ROOM}.fig_beyond", (_RUNS, _SAMPLES)),
        Figure("collapse-perturbed", f"{_ROOM}.fig_theory", (_PERTURBED,)),
        Figure("collapse-practice", f"{_ROOM}.fig_beyond", (_RUNS,)),
        Figure("collapse-lemmas", f"{_ROOM}.fig_theory", (_FEATURES, _SCALAR)),
    ),
    experiments=(
        _asked("runs", Runs, "trained_runs:minimise_depth", _OF_RUNS, **_ON_DATA, **_LONG, several=True),
        _asked("critical_penalty", CriticalPenalty, "critical_penalty:find_critical_penalty", (_CRITICAL,), **_ON_DATA),
        _asked("perturbed_classes", PerturbedClasses, "made_data:train_perturbed_classes", (_PERTURBED,)),
        _asked("lemmas", Lemmas, "made_data:minimise_free_features", (_FEATURES, _SCALAR)),
    ),
    captions={
        _RUNS: "Networks minimised to collapse, one row each, and of each depth a `reference` (seed -1) that was "
        "minimised for longer: the `total` loss, its `fit` and the penalties of `hidden` weights and of the `last` "
        "layer, its `gap` over the least that is known, its `gradient`'s norm over it, `work` (gradients times depth), "
        "the loss `without` branches and that of `free` features, the metrics NC1, NC2A, NC2B and NC3 with what they "
        "are made of, and NC1 and accuracy on test samples.",
        _LAYERS: "NC1 of the features after every layer.",
        _OPTIMA: "The least loss that is known of each setting and depth, what gave it (`by`), and the least loss of "
        "free features (`free`), which no network can pass.",
        _SAMPLES: "What networks were trained on: number of samples, and `rank` of what the first layer reads (with a "
        "constant) where the output is taken.",
        _CRITICAL: "The penalty of hidden weights above which branches of two-layer blocks die: `predicted` from "
        "networks without branches, whose loss is `without`, and found by bisection, to a factor of `step`, from "
        "branches next to nothing (`born`) and from living ones (`dies`), which have `weights` at the least penalty.",
        _PERTURBED: "Appendix C's inputs, one point a class and a perturbation of norm `eps`: NC1 of the first "
        "features (`NC1_in`), of the last, and its part in the last layer's row space (`NC1_row`); the `total` loss, "
        "and that `without` branches.",
        _FEATURES: "Free features and a last layer, minimised from random starts (Lemma 4.2): the loss over the closed "
        "form, less 1 (`excess`), and metrics; of collapsed pairs (its converse) that at their best scale, and how "
        "many local `minima` the loss has along the scale.",
        _SCALAR: "Residual networks of one dimension that give exp(a) x: the least squared weights, trained and in "
        "closed form.",
    },
)
