"""The paper's card.

Each threshold of its claims turns a sentence, a figure or a theorem of the paper into a number; the reason beside each
says how it follows from the paper, and its origin whether it was set before any run or after one had been seen.
"""

from typing import Any

from symlab.measures import Measure, Table
from symlab.papers.neuron_identifiability import settings
from symlab.papers.neuron_identifiability.found import FOUND, HEADING, HEADLINE, SCALE, TERMS, THUMBNAIL
from symlab.settings import Settings
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment, PointSettings

_ROOM = "symlab.papers.neuron_identifiability"


def _figures(numbers: str, file: str, *tables: str) -> list[Figure]:
    return [Figure(f"identifiability-{number}", f"{_ROOM}.{file}", tables) for number in numbers.split()]


def _measure(name: str, key: str, settings: type[Settings], function: str, *tables: str, **more: Any) -> Measure:
    return Measure(name, key, settings, f"{_ROOM}.{function}", tables, gpu=True, chain=True, **more)


def _experiment(key: str, settings: type[PointSettings], function: str, table: str, **more: Any) -> Experiment:
    return Experiment(key, settings, f"{_ROOM}.{function}", (table,), **more)


_OF_THEOREMS = ("gram_deviation.csv", "sensitivity.csv", "network_gaps.csv", "tail_energy.csv")
RIDGE, PLACES = "ridge_swap_costs.parquet", "neuron_places.parquet"
_OF_NEURONS = ("moments.safetensors", "permutations.safetensors")

NEURON_IDENTIFIABILITY = Paper(
    slug="neuron-identifiability",
    prefix="identifiability",
    authors="Bürgin, Herbst, Lin, Jegelka",
    short="Bürgin et al.",
    title="Beyond Structural Symmetries: Linear Mode Connectivity via Neuron Identifiability",
    where="2026",
    link="https://arxiv.org/abs/2606.04754",
    # What has no figure number in the paper comes last: theorems first, then the estimators of swap costs.
    figures=(
        *_figures("neurons", "fig_neurons", "neuron_places.parquet"),
        *_figures("thesis", "fig_thesis", "barriers.csv"),
        *_figures("2", "fig_02_identifiability", "neurons.csv"),
        *_figures("3a 3b", "fig_03_08_09_sigma_F", "matching.csv"),
        *_figures("3c", "fig_03_07_training", "matching.csv"),
        *_figures("4 4b", "fig_04_paths", "curves.csv"),
        *_figures("5", "fig_05_15_16_swap_maps", "swap_costs.parquet"),
        *_figures("6", "fig_06_coherence", "coherence_barriers.csv"),
        *_figures("7", "fig_03_07_training", "matching.csv"),
        *_figures("8 9", "fig_03_08_09_sigma_F", "matching.csv"),
        *_figures("10", "fig_10_fractions", "matching.csv"),
        *_figures("11", "fig_11_centre_gaps", "centre_gaps.csv"),
        *_figures("12 13", "fig_12_13_swap_boxes", "swap_costs.parquet"),
        *_figures("15", "fig_05_15_16_swap_maps", "ridge_swap_costs.parquet"),
        *_figures("16", "fig_05_15_16_swap_maps", "swap_costs.parquet"),
        *_figures("20", "fig_20_transformers", "curves.csv"),
        *_figures("21", "fig_21_subspaces", "subspaces.csv"),
        *_figures("thm4.4", "fig_thm4_4_gram", "gram_deviation.csv"),
        *_figures("thm4.5 thm4.7", "fig_thm4_5_sensitivity", "sensitivity.csv"),
        *_figures("thm4.6", "fig_thm4_6_widths", "swap_costs.parquet"),
        *_figures("thm4.8", "fig_thm4_8_gaps", "network_gaps.csv"),
        *_figures("sec6 fractions", "fig_sec6_drops", "barriers.csv"),
        *_figures("sec4.5", "fig_sec4_5_trade_off", "trade_off.csv"),
        *_figures("thm5.1", "fig_thm5_1_chords", "chord_deviation.csv"),
        *_figures("thmC.10", "fig_thmC_10_hardness", "hardness.csv"),
        *_figures("E.6", "fig_app_e_tail", "tail_energy.csv"),
        *_figures("prop5.2", "fig_prop5_2_barriers", "loss_bounds.csv"),
        *_figures("ridge", "fig_ridge", "estimators.csv"),
    ),
    found=FOUND,
    terms=TERMS,
    scale=SCALE,
    heading=HEADING,
    headline=HEADLINE,
    largest="mnist_paper",
    thumbnail=THUMBNAIL,
    measures=(
        _measure("theory", "theory", settings.Theory, "theory:measure_theorems", *_OF_THEOREMS),
        _measure("chords", "theory", settings.Theory, "chords:measure_chords", "chord_deviation.csv"),
        _measure("ridge", "ridge", settings.Ridge, "ridge:measure_ridge_costs", RIDGE, minutes=240),
        _measure(
            "places", "neuron_places", settings.NeuronPlaces, "neuron_places:measure_places", PLACES, needs=_OF_NEURONS
        ),
    ),
    experiments=(
        _experiment(
            "coherence", settings.CoherenceStudents, "coherence:train_coherence_students", "coherence_barriers.csv"
        ),
        _experiment(
            "centre_gaps", settings.CentreGaps, "centre_gaps:draw_centre_gaps", "centre_gaps.csv", datasets=True
        ),
        _experiment("hardness", settings.Hardness, "hardness:draw_features", "hardness.csv"),
    ),
    tables=(
        Table("trade_off.csv", f"{_ROOM}.tables:tabulate_trade_off", ("matching.csv", "history.csv")),
        Table("loss_bounds.csv", f"{_ROOM}.tables:bound_losses", ("curves.csv",)),
        Table("estimators.csv", f"{_ROOM}.tables:compare_estimators", ("swap_costs.parquet", RIDGE)),
    ),
    captions={
        "trade_off.csv": "Accuracy and identifiability of every pair (Section 4.5). `identity_ratio` is how far the "
        "identity comes from random permutations (0) to the optimal one (1), by objectives averaged over layers; "
        "accuracies and loss are means over the pair's two networks. All at the end of training.",
        "loss_bounds.csv": "The largest loss barrier of each pair against the bound of Proposition 5.2.",
        "neuron_places.parquet": "Each neuron of the first network of a pair at the end of training: whether the best "
        "matching puts it at its own place in the second (`itself`), the cost of its cheapest swap, the share of its "
        "swaps that cost less than that with its partner (`cost_rank`), and its correlations.",
        "centre_gaps.csv": "Smallest distance between two randomly drawn neuron centres, γ_out, for each width m, "
        "intrinsic dimension k and share of fixed weights; one row a draw.",
        "coherence_barriers.csv": "Loss barrier of every pair of students on coherent data, for each embedding and "
        "coherence ν = 1/t.",
        "ridge_swap_costs.parquet": "Cost of swapping each pair of neurons, by ridge regression. `reported` marks the "
        "β that figures and claims are about.",
        "estimators.csv": "How far the two estimators of swap costs agree: rank correlation (Spearman) between "
        "Mahalanobis and ridge costs of the same pairs of neurons, for each network, layer and β. None is given where "
        "the Mahalanobis costs are all equal, as they are without fixed parts.",
        "gram_deviation.csv": "How far the Gram matrices of a layer's neurons are from isotropy, and the bounds of "
        "Theorem 4.4.",
        "sensitivity.csv": "What permuting a layer's neurons and inputs costs, in units of the leading term, and the "
        "bounds of Theorems 4.5 and 4.7.",
        "network_gaps.csv": "The gaps γ_out and γ_in of every layer of trained networks and the bounds of Theorems "
        "4.6 and 4.8.",
        "tail_energy.csv": "The energy τ of a layer's inputs outside of their subspace, and the shares used of the "
        "bounds of Proposition E.2 and Corollary E.6, which it enters; medians of the hard and the relaxed costs.",
        "hardness.csv": "Least L2 error of random features for a single neuron, and the neuron's own norm (Theorem "
        "C.10), for each dimension d, width m, draw and bias.",
        "chord_deviation.csv": "How far a layer leaves the chord between two networks, and the bounds of Theorems 5.1 "
        "and D.1.",
    },
)
