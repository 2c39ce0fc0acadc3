"""Measures of a study's networks, and tables made from tables: what a line in a card says.

A paper's card (``symlab.papers``) registers its own; those of the kernel are in ``KERNEL``. The workflow knows nothing
else of them: rules, files, the keys of a study in a config and the digests of code follow from these lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from symlab.measures.settings import Identification, Interpolation, Matching
from symlab.settings import Settings


@dataclass(frozen=True)
class Measure:
    """One job a block of seeds of a variant: ``(models, data, settings, job) -> {output: table or tensors}``."""

    name: str
    """Of the job; a verb, such as ``match``."""
    key: str
    """Key of a study that switches it on and holds its settings; several measures may share one."""
    settings: type[Settings]
    function: str
    """``module:function``, imported by the job alone."""
    outputs: tuple[str, ...]
    """Files, by what they hold and how: ``matching.csv``, ``swap_costs.parquet``, ``permutations.safetensors``."""
    needs: tuple[str, ...] = ()
    """Tensor outputs of other measures of the same block (``moments.safetensors``), which the job is given."""
    needs_if: Mapping[str, str] = field(default_factory=dict)
    """Those that it needs only where a key of its settings is true: ``{"permutations.safetensors": "aligned"}``."""
    symmetries: bool = False
    """Whether it needs the networks' symmetries (``measures.symmetries.symmetries_of``), which are traced once for each
    shape of a study's networks."""
    text: tuple[str, ...] = ()
    """Columns of its tables that hold names, some of which may look like numbers (a layer's, such as 1.10)."""
    gpu: bool = False
    minutes: int = 60
    memory_mb: int = 4000
    chain: bool = False
    """Whether it takes networks that are a chain of linear maps alone."""


@dataclass(frozen=True)
class Table:
    """A table of a study made from others in its ``tables`` job: ``(inputs, job) -> table``."""

    name: str
    """``trade_off.csv``."""
    function: str
    inputs: tuple[str, ...]
    """Tables and tensor files of the study that it is made from; where one is not made, neither is this."""
    if_present: tuple[str, ...] = ()
    """Further inputs that it is given where the study has them."""


def is_table(output: str) -> bool:
    """Whether an output is a table and not a file of tensors."""
    return not output.endswith(".safetensors")


KERNEL: tuple[Measure, ...] = (
    Measure(
        "moments",
        "matching",
        Matching,
        "symlab.measures.moments:correlate_activations",
        ("moments.safetensors",),
        symmetries=True,
        gpu=True,
        minutes=30,
    ),
    Measure(
        "match",
        "matching",
        Matching,
        "symlab.measures.match:match_pairs",
        ("permutations.safetensors", "matching.csv"),
        needs=("moments.safetensors",),
        text=("point",),
        minutes=30,
    ),
    Measure(
        "interpolate",
        "interpolation",
        Interpolation,
        "symlab.measures.interpolate:walk_paths",
        ("curves.csv",),
        needs_if={"permutations.safetensors": "aligned"},
        gpu=True,
    ),
    Measure(
        "identify",
        "identification",
        Identification,
        "symlab.measures.identify:measure_swap_costs",
        ("subspaces.csv", "swap_costs.parquet", "neurons.csv"),
        text=("point",),
        gpu=True,
        chain=True,
    ),
)
KERNEL_TABLES: tuple[Table, ...] = (
    Table("barriers.csv", "symlab.measures.tables:barriers_of_curves", ("curves.csv",)),
)
KERNEL_CAPTIONS: dict[str, str] = {
    "history.csv": "Loss and accuracy of every network after every epoch.",
    "matching.csv": "Matching objective of the optimal, the identity and random permutations, for each pair, snapshot "
    "and group of neurons.",
    "curves.csv": "Loss and accuracy at every point of the line between the two networks of a pair, unaligned and "
    "aligned.",
    "barriers.csv": "How much worse the networks on the line between two are than the ends themselves, at the midpoint "
    "and at the worst point. `barrier_*` is about the loss, `drop_*_pp` about the accuracy in percentage points; "
    "`aligned` says whether the second network's neurons were permuted first.",
    "subspaces.csv": "Dimension and coherence ν of the input subspace of every layer.",
    "swap_costs.parquet": "Cost of swapping each pair of neurons, from the Mahalanobis form on the input subspace.",
    "neurons.csv": "The first neurons of the first layer on the plane of the inputs' two leading principal directions: "
    "`v` the fixed centre, `S` the Gram matrix of what the trainable weights reach, `a` what was learned.",
}
"""What each table holds, in Markdown."""
