"""The paper's card: how mirror symmetries of a loss constrain what training converges to."""

from symlab.measures import Measure
from symlab.papers.mirror_symmetry import settings as of
from symlab.papers.mirror_symmetry.found import FOUND, HEADING, HEADLINE, SCALE, SUBJECTS, TERMS, THUMBNAIL
from symlab.study.card import Figure, Paper
from symlab.study.experiment import experiments_under

_ROOM = "symlab.papers.mirror_symmetry"
_ONLINE, _DEEP, _CONVEX, _SMALL = (f"{_ROOM}.{part}" for part in ("online", "deep", "convex", "small"))
_ALIKE = ("homogeneity.csv", "neuron_correlations.parquet", "neuron_pairs.csv")
_LINES = ("mirror_lines.csv", "mirror_optimizers.csv")
_SPARSITY = ("mirror_sparsity.csv", "mirror_sparsity_law.csv", "mirror_sparsity_alone.csv")
_RANK = ("mirror_rank.csv", "mirror_rank_exponents.csv")
_SMALL_NETWORKS = ("mirror_decay.csv", "mirror_hessian.csv", "mirror_theorem.csv")
_TASKS, _MIRRORS, _SIZES = ("mirror_network_tasks.csv",), ("network_mirrors.csv",), ("magnitudes.csv", "pruned.csv")
_COSTS = ("mirror_memory.csv", "mirror_step_times.csv")
_SPARSE, _PLASTICITY = ("mirror_sparse.csv",), ("mirror_plasticity.csv", "mirror_dead.csv")
_APART = "symlab.study.points:join_grids"
"""Tells the grids of a list apart."""
_asked = experiments_under("mirror_symmetry", _ROOM)

MIRROR_SYMMETRY = Paper(
    slug="mirror-symmetry",
    prefix="mirror",
    authors="Ziyin",
    short="Ziyin",
    title="Symmetry Induces Structure and Constraint of Learning",
    where="ICML 2024",
    link="https://arxiv.org/abs/2309.16932",
    scale=SCALE,
    subjects=SUBJECTS,
    found=FOUND,
    terms=TERMS,
    heading=HEADING,
    headline=HEADLINE,
    largest="mirror",
    thumbnail=THUMBNAIL,
    figures=(
        Figure("mirror-1", f"{_SMALL}.fig_01_02_05_mirrors", _LINES),
        Figure("mirror-2", f"{_SMALL}.fig_01_02_05_mirrors", ("mirror_hessian.csv", "mirror_decay.csv")),
        Figure("mirror-3a", f"{_ONLINE}.fig_03a_rates", _SPARSITY),
        Figure("mirror-3b", f"{_ONLINE}.fig_03b_rank", _RANK),
        Figure("mirror-3c", f"{_DEEP}.fig_03_06_homogeneity", _ALIKE[:2]),
        Figure("mirror-4", f"{_SMALL}.fig_04_plasticity", ("mirror_dead.csv", "mirror_plasticity.csv")),
        Figure("mirror-5", f"{_SMALL}.fig_01_02_05_mirrors", _LINES),
        Figure("mirror-6", f"{_DEEP}.fig_03_06_homogeneity", _ALIKE[:2]),
        Figure("mirror-7", f"{_DEEP}.fig_07_products", ("magnitudes.csv", "pruned.csv", "history.csv")),
        Figure("mirror-8", f"{_CONVEX}.fig_08_factors", ("mirror_factors.csv",)),
        Figure("mirror-9", f"{_SMALL}.fig_09_10_ranks", ("mirror_attention.csv",)),
        Figure("mirror-10", f"{_SMALL}.fig_09_10_ranks", ("mirror_attention.csv",)),
        Figure("mirror-phase", f"{_ONLINE}.fig_collapse", _SPARSITY),
        Figure("mirror-batch", f"{_ONLINE}.fig_collapse", _SPARSITY),
        Figure("mirror-edges", f"{_ONLINE}.fig_collapse", ("mirror_edges.csv",)),
        Figure("mirror-adam", f"{_ONLINE}.fig_03a_rates", (*_SPARSITY[:1], "mirror_adam.csv")),
        Figure("mirror-removed", f"{_DEEP}.fig_decay", ("homogeneity.csv", "neuron_pairs.csv")),
        Figure("mirror-budget", f"{_DEEP}.fig_decay", (*_SIZES, "homogeneity.csv")),
        Figure("mirror-tasks", f"{_SMALL}.fig_04_plasticity", _TASKS),
        Figure("mirror-sparse", f"{_CONVEX}.fig_08_factors", _SPARSE),
        Figure("mirror-solvers", f"{_CONVEX}.fig_08_factors", ("mirror_solvers.csv",)),
        Figure("mirror-thm1", f"{_DEEP}.fig_thm1_networks", _MIRRORS),
    ),
    measures=(
        Measure("mirror", "mirrors", of.Mirrors, f"{_DEEP}.network_mirrors:measure_mirrors", _MIRRORS, symmetries=True),
        Measure(
            "homogeneity", "homogeneity", of.Homogeneity, f"{_DEEP}.homogeneity:measure_homogeneity", _ALIKE, gpu=True
        ),
        Measure("magnitudes", "magnitudes", of.Magnitudes, f"{_DEEP}.magnitudes:measure_magnitudes", _SIZES, gpu=True),
    ),
    experiments=(
        _asked("lines", of.Lines, "small.lines:descend_along_mirrors", _LINES),
        _asked("small_networks", of.SmallNetworks, "small.small_networks:measure_small_networks", _SMALL_NETWORKS),
        _asked("plasticity", of.Plasticity, "small.plasticity:learn_tasks", _PLASTICITY),
        _asked("network_tasks", of.NetworkTasks, "small.network_tasks:learn_labellings", _TASKS, datasets=True),
        _asked("attention", of.Attention, "small.attention:train_attention", ("mirror_attention.csv",), several=True),
        _asked("factorization", of.Factorization, "convex.factorization:factor_with_decay", ("mirror_factors.csv",)),
        _asked("solvers", of.Solvers, "convex.solvers:compare_solvers", ("mirror_solvers.csv",)),
        _asked("sparse_networks", of.SparseNetworks, "convex.sparse_networks:sparsify", _SPARSE, datasets=True),
        _asked("sparsity", of.Sparsity, "online.product_sgd:train_online", _SPARSITY, tables=_APART, several=True),
        _asked("online_rank", of.OnlineRank, "online.matrix_rank:train_factors", _RANK, several=True),
        _asked("edges", of.Edges, "online.one_product:collapse_one_product", ("mirror_edges.csv",)),
        _asked("adam", of.AdamSparsity, "online.product_sgd:train_with_adam", ("mirror_adam.csv",)),
        _asked("memory", of.Memory, "deep.memory:measure_costs", _COSTS, memory_mb=6000),
    ),
    captions={
        "homogeneity.csv": "How alike neurons of the last hidden layer are, a row a network, epoch (0, the last) and "
        "`kind` (pre, post: side of the activation): shares of the pairs of live neurons whose correlation is above "
        "`correlated` (`positive`), below its negative (`negative`), and whose weights have merged (`close`, in number "
        "`merged`), `dead` and `live` neurons, distance of the `closest` pair, and how the network was `trained_as`.",
        "neuron_correlations.parquet": "Correlations in the first network of each variant, like neurons together.",
        "neuron_pairs.csv": "Pairs of neurons, the closest (`near`) and as many others: their `distance`, and at their "
        "mean, in the direction n in which they differ, the `curvature` nᵀHn of loss and decay, and the `exponent` E "
        "log|1 - lr h / (1 - momentum)| of SGD's batches, which take them apart where it is above 0; all before the "
        "end, if there is a snapshot. `change`: that of ln|θ_a - θ_b| until the end, when they may have `merged`.",
        "magnitudes.csv": "The `share` of parameters (products, where factors are trained) below each `threshold`, a "
        "row a network and snapshot.",
        "mirror_memory.csv": "Bytes that a training step holds at once, for a network as it is and with every "
        "parameter a product of two: `parameters`, `gradients`, `momentum` and, with the composed parameters, the "
        "`activations` that the backward pass needs.",
        "mirror_step_times.csv": "CPU `seconds` of training steps of both, taken in turn, on the machine of the run.",
        "pruned.csv": "Test accuracy in percent with the smallest `share` of all parameters set to 0, and with all "
        "below `threshold` (other rows have none).",
        "network_mirrors.csv": "Mirrors of trained networks, of pairs of neurons, of rotations within a head and of "
        "rescalings, a row a quantity: what Theorem 1 says of gradients, Hessians and SGD `on` the mirror, and the "
        "same `off` it. Second orders are of the `samples` of whose ReLUs no input changes its sign within the step.",
        "mirror_lines.csv": "Gradient descents in the plane that start on a mirror of the loss or `offset` beside it: "
        "the point and its distance `off` the mirror at every step.",
        "mirror_optimizers.csv": "How far optimizers get `off` a mirror on which they start, over the weights' norm, "
        "and how an infinitesimal start beside it grows along the same path (`tangent`).",
        "mirror_theorem.csv": "Numbers that Theorem 1 and Equations 2 and 6 predict, on losses in closed form.",
        "mirror_decay.csv": "Norm of a tanh network's parameters after descent with decay, in units of the decay from "
        "which 0 is stable, |E xy| / 2 (Eq. 2).",
        "mirror_hessian.csv": "The Hessian of a tanh network on three mirrors, in their columns' basis, by `block`.",
        "mirror_plasticity.csv": "Regressors on task after task: the loss at a task's end; `noise` is a variance.",
        "mirror_dead.csv": "How many of their parameters have a gradient of at most `threshold` when a task arrives, "
        "how many were so a task `before`, and how many of these are still (`kept`).",
        "mirror_network_tasks.csv": "Networks of products and plain ones that learn one labelling of images after the "
        "other: loss and accuracy at a task's end, and the share of dead parameters when it arrives.",
        "mirror_factors.csv": "Singular values of two linear layers with weight decay `gamma` above 1e-3 of the first "
        "(`rank`) and above 1e-6 (`zero_rank`) after an eighth to all of the steps; the rank of the `convex` minimum; "
        "those of A S above gamma (`above`) and above the edge of what is still falling (`above_band`).",
        "mirror_attention.csv": "Ranks of query and key weights of attention layers while they train (singular values "
        "above 1e-2 of the largest), how far the key's singular values are from the query's over their norm "
        "(`apart_key`), |QQᵀ - KKᵀ| (`unbalance`), and `time`, rate (`lr`) times steps.",
        "mirror_solvers.csv": "Products of factors with weight decay and convex solvers, after the same numbers of "
        "steps: the objective above the minimum (`gap`).",
        "mirror_sparse.csv": "Networks of which parts are drawn to vanish by a `method` at a `strength`: accuracy "
        "in percent on `train` and `test` samples with the smallest `share` of what is to vanish (`structure`) set to "
        "0, and the share that has `vanished` (at most 1e-6) without that.",
        "mirror_sparsity.csv": "Online SGD of a regression with products u w for coefficients, and of a plain one: "
        "|θ - 1/d|² (`excess`), medians of ln|θ|, and the share of coefficients below 10^-k (`below_k`). An infinite "
        "`batch` is the gradient of the expected loss.",
        "mirror_sparsity_law.csv": "What theory says of the same runs without a fit: Λ (`growth`), the shares below "
        "10^-k of products simulated one by one (`alone_k`), and `chance`, the 99.75 % quantile of the largest "
        "difference from these of as many such products.",
        "mirror_sparsity_alone.csv": "Medians of ln|u w| over as many single products as a regression has, a row a run "
        "and step of the second half, where mirrors attract.",
        "mirror_rank.csv": "Online SGD of a product of two matrices, its residual form and one with a linear skip: the "
        "rank (singular values above 10⁻³ of the largest) of all that multiplies the input (`map`), and of WU.",
        "mirror_rank_exponents.csv": "Lyapunov exponents of SGD near W = U = 0, the largest first; the rank is "
        "predicted by how many are positive.",
        "mirror_edges.csv": "SGD of one product from right beside its mirrors: the `share` of runs that end nearer to "
        "them than they began, Λ (`growth`, of the two mirrors the larger) with the `deviation` of a step, and Λ to "
        "second order.",
        "mirror_adam.csv": "The regression of products under Adam: |θ - 1/d|² and shares of coefficients below 10^-k.",
    },
)
