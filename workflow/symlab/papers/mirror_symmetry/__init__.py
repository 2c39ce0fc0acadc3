"""The paper's card: how mirror symmetries of a loss constrain what training converges to."""

from __future__ import annotations

from symlab.measures import Measure
from symlab.papers.mirror_symmetry.found import FOUND, HEADING, HEADLINE, SCALE, TERMS, THUMBNAIL
from symlab.papers.mirror_symmetry.settings import (
    AdamSparsity,
    Attention,
    Edges,
    Factorization,
    Homogeneity,
    Lines,
    Magnitudes,
    Memory,
    Mirrors,
    NetworkTasks,
    OnlineRank,
    Plasticity,
    SmallNetworks,
    Solvers,
    Sparsity,
)
from symlab.study.card import Figure, Paper
from symlab.study.experiment import Experiment

_ROOM = "symlab.papers.mirror_symmetry"
_ONLINE, _DEEP, _CONVEX, _SMALL = (f"{_ROOM}.{part}" for part in ("online", "deep", "convex", "small"))
_ALIKE = ("homogeneity.csv", "neuron_correlations.parquet")
_LINES = ("mirror_lines.csv", "mirror_optimizers.csv")
_SPARSITY = ("mirror_sparsity.csv", "mirror_sparsity_law.csv")
_RANK = ("mirror_rank.csv", "mirror_rank_exponents.csv")

MIRROR_SYMMETRY = Paper(
    slug="mirror-symmetry",
    prefix="mirror",
    authors="Ziyin",
    short="Ziyin",
    title="Symmetry Induces Structure and Constraint of Learning",
    where="ICML 2024",
    link="https://arxiv.org/abs/2309.16932",
    scale=SCALE,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    thumbnail=THUMBNAIL,
    figures=(
        Figure("mirror-1", f"{_SMALL}.fig_01_mirror", _LINES),
        Figure("mirror-2", f"{_SMALL}.fig_02_hessian", ("mirror_hessian.csv", "mirror_decay.csv")),
        Figure("mirror-3a", f"{_ONLINE}.fig_03a_rates", _SPARSITY),
        Figure("mirror-3b", f"{_ONLINE}.fig_03b_rank", _RANK),
        Figure("mirror-3c", f"{_DEEP}.fig_06_homogeneity", _ALIKE),
        Figure("mirror-4", f"{_SMALL}.fig_04_plasticity", ("mirror_dead.csv", "mirror_plasticity.csv")),
        Figure("mirror-5", f"{_SMALL}.fig_05_descents", _LINES),
        Figure("mirror-6", f"{_DEEP}.fig_06_homogeneity", _ALIKE),
        Figure("mirror-7", f"{_DEEP}.fig_07_products", ("magnitudes.csv", "pruned.csv", "history.csv")),
        Figure("mirror-8", f"{_CONVEX}.fig_08_factors", ("mirror_factors.csv",)),
        Figure("mirror-9", f"{_SMALL}.fig_09_ranks", ("mirror_attention.csv",)),
        Figure("mirror-10", f"{_SMALL}.fig_09_ranks", ("mirror_attention.csv",)),
        Figure("mirror-phase", f"{_ONLINE}.fig_phase", _SPARSITY),
        Figure("mirror-batch", f"{_ONLINE}.fig_batch", _SPARSITY),
        Figure("mirror-edges", f"{_ONLINE}.fig_edges", ("mirror_edges.csv",)),
        Figure("mirror-adam", f"{_ONLINE}.fig_adam", (*_SPARSITY[:1], "mirror_adam.csv")),
        Figure("mirror-removed", f"{_DEEP}.fig_removed", ("homogeneity.csv", "neuron_pairs.csv")),
        Figure("mirror-budget", f"{_DEEP}.fig_budget", ("magnitudes.csv", "homogeneity.csv")),
        Figure("mirror-tasks", f"{_SMALL}.fig_tasks", ("mirror_network_tasks.csv",)),
        Figure("mirror-solvers", f"{_CONVEX}.fig_solvers", ("mirror_solvers.csv", "mirror_signs.csv")),
        Figure("mirror-thm1", f"{_DEEP}.fig_thm1_networks", ("network_mirrors.csv",)),
    ),
    measures=(
        Measure(
            "mirror",
            "mirrors",
            Mirrors,
            f"{_DEEP}.network_mirrors:measure_mirrors",
            ("network_mirrors.csv",),
            symmetries=True,
        ),
        Measure(
            "homogeneity",
            "homogeneity",
            Homogeneity,
            f"{_DEEP}.homogeneity:measure_homogeneity",
            ("homogeneity.csv", "neuron_correlations.parquet", "neuron_pairs.csv"),
            gpu=True,
        ),
        Measure(
            "magnitudes",
            "magnitudes",
            Magnitudes,
            f"{_DEEP}.magnitudes:measure_magnitudes",
            ("magnitudes.csv", "pruned.csv"),
            gpu=True,
        ),
    ),
    experiments=(
        Experiment(
            "mirror_symmetry.memory", Memory, f"{_DEEP}.memory:count_bytes", ("mirror_memory.csv",), memory_mb=6000
        ),
        Experiment("mirror_symmetry.lines", Lines, f"{_SMALL}.lines:descend_along_mirrors", _LINES),
        Experiment(
            "mirror_symmetry.small_networks",
            SmallNetworks,
            f"{_SMALL}.small_networks:measure_small_networks",
            ("mirror_decay.csv", "mirror_hessian.csv", "mirror_theorem.csv"),
        ),
        Experiment(
            "mirror_symmetry.plasticity",
            Plasticity,
            f"{_SMALL}.plasticity:learn_tasks",
            ("mirror_plasticity.csv", "mirror_dead.csv"),
        ),
        Experiment(
            "mirror_symmetry.network_tasks",
            NetworkTasks,
            f"{_SMALL}.network_tasks:learn_labellings",
            ("mirror_network_tasks.csv",),
            datasets=True,
        ),
        Experiment(
            "mirror_symmetry.factorization",
            Factorization,
            f"{_CONVEX}.factorization:factor_with_decay",
            ("mirror_factors.csv",),
        ),
        Experiment(
            "mirror_symmetry.attention", Attention, f"{_SMALL}.attention:train_attention", ("mirror_attention.csv",)
        ),
        Experiment(
            "mirror_symmetry.solvers",
            Solvers,
            f"{_CONVEX}.solvers:compare_solvers",
            ("mirror_solvers.csv", "mirror_signs.csv"),
        ),
        Experiment(
            "mirror_symmetry.sparsity",
            Sparsity,
            f"{_ONLINE}.product_sgd:train_online",
            _SPARSITY,
            "symlab.study.points:join_grids",
            several=True,
        ),
        Experiment(
            "mirror_symmetry.online_rank", OnlineRank, f"{_ONLINE}.matrix_rank:train_factors", _RANK, several=True
        ),
        Experiment(
            "mirror_symmetry.edges", Edges, f"{_ONLINE}.one_product:collapse_one_product", ("mirror_edges.csv",)
        ),
        Experiment(
            "mirror_symmetry.adam", AdamSparsity, f"{_ONLINE}.product_adam:train_with_adam", ("mirror_adam.csv",)
        ),
    ),
    captions={
        "homogeneity.csv": "How alike neurons of the last hidden layer are before and after training, one row a "
        "network, epoch and side of the activation: shares of pairs with correlations near 1 and -1 and of pairs whose "
        "weights are close, participation of the correlation matrix, dead neurons, the closest pair.",
        "neuron_correlations.parquet": "Correlation matrices of the first network of every variant, like neurons "
        "beside each other.",
        "neuron_pairs.csv": "Distances of pairs of neurons, and at the pair's mean, in the direction in which they "
        "differ, the curvature of loss and decay and the exponent E log|1 - lr h| of SGD's batches.",
        "magnitudes.csv": "Share of parameters below each threshold, along training.",
        "mirror_memory.csv": "Bytes that a training step holds at once, for a network as it is and with every "
        "parameter a product of two.",
        "pruned.csv": "Test accuracy with the smallest share of all parameters set to 0.",
        "network_mirrors.csv": "Mirrors of trained networks, of pairs of neurons and of rotations within a head, a row "
        "a quantity: what Theorem 1 says of gradients, Hessians and SGD `on` the mirror, and the same `off` it.",
        "mirror_lines.csv": "Gradient descents in the plane that start on a mirror of the loss or `offset` beside it: "
        "the point, its loss and its distance `off` the mirror at every step.",
        "mirror_optimizers.csv": "How far optimizers get `off` a mirror on which they start, over the weights' norm, "
        "and how an infinitesimal start beside it grows along the same path (`tangent`).",
        "mirror_theorem.csv": "Numbers that Theorem 1 and Equations 2 and 6 predict, on losses in closed form.",
        "mirror_decay.csv": "Norm of a tanh network's parameters after descent with decay, in units of the decay from "
        "which 0 is stable.",
        "mirror_hessian.csv": "The Hessian of a tanh network on three mirrors, in a basis of their columns and in a "
        "random one.",
        "mirror_plasticity.csv": "Regressors that learn one task after the other: the loss when a task arrives "
        "(`start`) and after it. `noise` is a variance.",
        "mirror_dead.csv": "How many of their parameters have a gradient of at most `threshold` when a task arrives, "
        "how many were so a task `before`, and how many of these are still (`kept`).",
        "mirror_network_tasks.csv": "Networks of products and plain ones that learn one labelling of images after the "
        "other: loss and accuracy at a task's end, and the share of dead parameters when it arrives.",
        "mirror_factors.csv": "Rank of two linear layers with weight decay `gamma`, of the convex minimum, and the "
        "numbers of singular values of A S above gamma and above the edge of what is still falling.",
        "mirror_attention.csv": "Ranks of the query, key and value weights of attention layers while they train, and "
        "how far apart their singular values are.",
        "mirror_solvers.csv": "Objective above the minimum (`gap`) and support of products of factors with weight "
        "decay and of convex solvers, after the same numbers of steps.",
        "mirror_signs.csv": "Coefficients of the minimum that start with the wrong sign, and those whose sign the "
        "product of factors has put right at the end, by how it starts.",
        "mirror_sparsity.csv": "Online SGD of a regression with products u w for coefficients, and of a plain one: the "
        "mean squared error of the last 1,000 steps, |θ - 1/d|² (`excess`), medians of ln|θ| and ln (u + w)²/2, and "
        "the share of coefficients below 10^-k (`below_k`). An infinite `batch` is the gradient of the expected loss.",
        "mirror_sparsity_law.csv": "What theory says of the same runs without a fit: Λ (`growth`), the shares below "
        "10^-k, and by how much chance alone lets shares differ (`chance`).",
        "mirror_rank.csv": "Online SGD of a product of two matrices, its residual form and one with a linear skip: "
        "ranks of all that multiplies the input (`map`), of W and of WU, with singular values counted above 10⁻² and "
        "10⁻³ of the largest and above 10⁻⁶.",
        "mirror_rank_exponents.csv": "Lyapunov exponents of SGD near W = U = 0, the largest first; the rank is "
        "predicted by how many are positive.",
        "mirror_edges.csv": "SGD of one product from right beside its mirrors: the share of runs that end nearer to "
        "them than they began, Λ and its sign to second order.",
        "mirror_adam.csv": "The regression of products under Adam: |θ - 1/d|² and the shares of coefficients "
        "below 10^-k.",
    },
)
