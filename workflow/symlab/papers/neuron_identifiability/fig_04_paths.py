"""Fig. 4: train accuracy on the straight line between two networks, unaligned and aligned."""

from functools import partial

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import masks
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.rows import one_path
from symlab.papers.neuron_identifiability.variants import by_variant, label_rows, telling_variants
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.cases import Cases
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below, between, minus, without_phrases
from symlab.study.facets import facets, labelled
from symlab.study.tables import chance, need, one_matching, some, where


def draw_paths(tables: Tables, style: plot.Style, titles: dict[bool, str]) -> plot.Figure:
    """Train accuracy in percent along lambda: a panel for unaligned paths (False), one for aligned (True), as titled.

    A row a data set. Aligned paths are those of the first method.

    Raises:
        UserError: there is no accuracy on train data, or no aligned path where one is asked for.
    """
    curves = one_matching(need(tables, "curves.csv"))
    asked = f"{where(curves)}.interpolation"
    train = curves[(curves["split"] == "train") & curves["accuracy"].notna() & curves["aligned"].isin(titles)]
    some(train, f"it needs a classification data set and train among {asked}.splits.")
    if train["aligned"].nunique() < len(titles):
        raise UserError(f"it needs aligned paths too, so set {asked}.aligned to true and add matching.")
    variants = telling_variants(train)
    rows = label_rows(train.assign(percent=100 * train["accuracy"]), variants).sort_values("aligned", kind="stable")
    lowest = rows.groupby(["variant", "aligned", "lambda"])["percent"].mean().min()
    ends = rows[rows["lambda"].isin([0, 1])].groupby("variant")["percent"].mean()
    note = f"{over_pairs(rows)}; λ = 0: network A, λ = 1: network B"
    if ends.min() < 60:
        note += f"\nunder-trained: the networks reach {ends.min():.0f} to {ends.max():.0f} %"
    ylim = (max(0, 10 * ((lowest - 5) // 10)), 101)
    return facets(
        rows, "lambda", "percent", variant_looks(variants, style), row="dataset", column="aligned",
        title=titles.__getitem__,
        axes=labelled(r"position $\lambda$", "train accuracy (%)", ylim=ylim, xticks=(0, 0.5, 1)),
        options={"marker": False}, width=max(plot.COLUMN, 0.375 * plot.PAGE * len(titles)), height=2.2, note=note,
    )  # fmt: skip


FIGURES = {
    "identifiability-4": Drawing(
        "Train accuracy along the path",
        "Train accuracy on the straight line between two networks of a pair, study `{study}`: λ = 0 is the first "
        "network, λ = 1 the second, in panel c with its neurons permuted to match the first (by the first of the "
        "study's matching methods, if it has two). The deeper a line sags, the less the two networks can be "
        "averaged. Of several W-asymmetric and syre networks, those with σ_F = 0 and the smallest σ_F ≥ 1 are shown. "
        "Lines are means over pairs. A pair's drop is the largest on its own line, wherever it lies, so that the "
        "mean of the drops is more than the dip of the mean line.",
        partial(draw_paths, titles={False: "a   unaligned", True: "c   aligned"}),
        "The largest drops of train accuracy, in percentage points: unaligned {identifiability-4a-barrier}, "
        "{identifiability-4a-connected}; aligned {identifiability-4c-aligned}.",
        "The paper leaves σ-MLPs out. Its axis begins at 0.",
    ),
    "identifiability-4b": Drawing(
        "Train accuracy along the path, ResNets (b, d)",
        "Train accuracy on the straight line between two ResNets of a pair, study `{study}`: λ = 0 is the first "
        "network, λ = 1 the second, in panel d with its neurons permuted to match the first. A line that sags is a "
        "barrier.",
        partial(draw_paths, titles={False: "b   unaligned", True: "d   aligned"}),
        "The largest drops, as shares of what the networks have over chance: unaligned {barrier:%}, aligned "
        "{identifiability-4d-aligned:%}.",
    ),
}


def drops(tables: Tables, which: masks.Mask, aligned: bool, column: str = "drop_max_pp") -> Cases:
    """Drop of train accuracy between the networks of each pair, in percentage points."""
    return by_variant(one_path(tables["barriers.csv"], "train", aligned), column, which)


def over_chance(tables: Tables, which: masks.Mask = masks.every_row, aligned: bool = False) -> Cases:
    """What the two networks of each pair have over chance on train data, in percentage points."""
    curves = one_path(tables["curves.csv"], "train", aligned)
    ends = curves[curves["lambda"].isin([0, 1])]
    over = 100 * (ends["accuracy"] - (chance(tables["curves.csv"]) or float("nan")))
    return by_variant(ends.assign(over=over), "over", which)


def accuracy_drop(tables: Tables, which: masks.Mask, aligned: bool) -> list[Found]:
    """Largest drop of train accuracy in percentage points, mean over pairs."""
    return drops(tables, which, aligned).means()


def share_lost(tables: Tables, which: masks.Mask, aligned: bool, column: str = "drop_max_pp") -> list[Found]:
    """Drop of train accuracy as a share of what the pair's networks have over chance, mean over pairs."""
    return (drops(tables, which, aligned, column) / over_chance(tables, which, aligned)).means()


def drop_over_baseline(tables: Tables, which: masks.Mask, baseline: masks.Mask) -> list[Found]:
    """Largest unaligned drop as a fraction of the baseline's; of several on the data set, of the smallest."""
    return drops(tables, which, False).ratios(drops(tables, baseline, False).extreme(lambda drop: -drop, "dataset"))


def drop_left_by_alignment(tables: Tables, which: masks.Mask) -> list[Found]:
    """Largest drop on the aligned path as a fraction of that on the unaligned one, of the same pairs."""
    return drops(tables, which, True).paired_ratios(drops(tables, which, False))


def left_beside_standard(tables: Tables, which: masks.Mask) -> list[Found]:
    """The fraction of the barrier that alignment leaves, less that of standard networks."""
    standard = drop_left_by_alignment(tables, masks.STANDARD)[:1]
    return [
        minus(each, other, f"{each.value:.3g} ({each.detail}); standard: {other.value:.3g} ({other.detail})")
        for each in without_phrases(drop_left_by_alignment(tables, which))
        for other in without_phrases(standard)
    ]


TRAINED = "ten of the ninety percentage points that fully trained networks of ten classes have over chance"
HIGH, LOW = 1 / 3, 1 / 9
"""Shares of what the networks have over chance whose loss counts as a high barrier and as a low one."""

ALIKE_CLAIM = partial(
    Claim,
    bound=between(-0.1, 0.1),
    owner="paper",
    origin="pilot",
    tables=("barriers.csv",),
    measure=partial(left_beside_standard, which=masks.W_0),
)
DROP_CLAIM = partial(
    Claim,
    quantity="largest drop of train accuracy on the line between them, mean over pairs",
    owner="paper",
    origin="pilot",
    tables=("barriers.csv",),
    also=("identifiability-4",),
)
OTHERS_CLAIM = partial(DROP_CLAIM, owner="derived", origin="derived")
SHARE_CLAIM = partial(
    Claim,
    quantity="largest drop of train accuracy on the line between them as a share of what they have over chance",
    owner="paper",
    tables=("barriers.csv", "curves.csv"),
)
LOWERED_CLAIM = partial(
    Claim,
    quantity="largest drop of train accuracy as a fraction of the unaligned one",
    owner="paper",
    origin="ours",
    tables=("barriers.csv",),
    also=("identifiability-4b",),
)
CLAIMS = {
    "identifiability-4a-barrier": DROP_CLAIM(
        statement="Unaligned, two standard networks or two with σ_F = 0 cannot be averaged",
        bound=at_least(10, "pp"),
        reason="The paper calls these barriers high; ten percentage points are far more than networks of one kind "
        "differ by. A sketch on digits had been seen.",
        why="The paper states no size, and the threshold was set with a sketch on digits in sight. Why networks of "
        "this study lose less is not known.",
        measure=partial(accuracy_drop, which=masks.any_of(masks.STANDARD, masks.W_0), aligned=False),
    ),
    "identifiability-4a-connected": DROP_CLAIM(
        statement="Unaligned, two networks with σ_F of 1 and more can be averaged",
        bound=at_most(3, "pp"),
        reason="The paper says unaligned connectivity is achieved for large σ_F; connected is read as less than a "
        "third of a high barrier. A sketch on digits had been seen.",
        measure=partial(accuracy_drop, which=masks.any_of(masks.W_FROM_1, masks.SYRE_FROM_1), aligned=False),
    ),
    "identifiability-4c-aligned": DROP_CLAIM(
        statement="Aligned, two standard, two W-asymmetric (whatever σ_F) and two syre networks can be averaged",
        bound=at_most(3, "pp"),
        reason="The paper says that all models, which are of these three kinds, have reasonably low barriers once "
        "aligned; the same few points as for the identifiable ones. Its σ_F are 0 and 1; those between are asked too. "
        "A sketch on digits had been seen.",
        measure=partial(accuracy_drop, which=masks.any_of(masks.STANDARD, masks.W, masks.SYRE), aligned=True),
    ),
    "identifiability-4c-sigma": DROP_CLAIM(
        statement="Aligned, two σ-MLPs can be averaged too",
        bound=at_most(3, "pp"),
        owner="ours",
        reason="The paper does not say so: its Fig. 4 has no σ-MLPs, whose neurons it finds as little identifiable as "
        "random ones (Fig. 7). The same few points as for the other kinds.",
        measure=partial(accuracy_drop, which=masks.sigma_mlp, aligned=True),
        why="The fixed matrix C of the nonlinearity x * sigmoid(Cx) belongs to the numbering of the neurons: "
        "permuting them permutes C as well, and the two networks on the line then differ in it.",
    ),
    "identifiability-4a-others": OTHERS_CLAIM(
        statement="Unaligned, two sparse or two residual networks cannot be averaged either",
        bound=at_least(10, "pp"),
        reason="Table 1's other schemes have no fixed part that tells neurons apart: F is 0, or I, which stays as it "
        "is when all layers are renumbered alike. What counts as high for the paper's networks does here.",
        why={"residual": "Why they lose less is not known: their neurons do not keep their places (Fig. 7)."},
        measure=partial(accuracy_drop, which=masks.any_of(masks.SPARSE, masks.RESIDUAL), aligned=False),
    ),
    "identifiability-4c-others": OTHERS_CLAIM(
        statement="Aligned, two sparse or two residual networks can be averaged",
        bound=at_most(3, "pp"),
        reason="Effective weights are matched, in which nothing is left of a scheme; the same few points as for the "
        "paper's networks.",
        measure=partial(accuracy_drop, which=masks.any_of(masks.SPARSE, masks.RESIDUAL), aligned=True),
    ),
    "identifiability-4c-alike": ALIKE_CLAIM(
        statement="Alignment helps networks with σ_F = 0 as much as standard ones",
        quantity="fraction of the unaligned barrier that alignment leaves, less that of standard networks",
        reason="The paper (Section 6, Q1): alignment reduces the barrier of W-asymmetric architectures with σ_F = 0 "
        "similarly well; similar is read as within a tenth of the barrier.",
        also=("identifiability-4",),
    ),
    "identifiability-4b-barrier": SHARE_CLAIM(
        statement="Unaligned, two standard ResNets or two with σ_F = 0 cannot be averaged",
        bound=at_least(HIGH),
        owner="derived",
        origin="pilot",
        reason="The paper calls such barriers high of MLPs alone, and shows those of ResNets beside them, whose "
        "symmetries are not broken effectively either (Appendix F.2); a third is three times what counts as low in "
        "Fig. 4d. For large σ_F the paper claims connectivity only to some degree, so no bound is set there. "
        f"{SINCE}: no sentence of the paper says it of ResNets.",
        measure=partial(share_lost, which=masks.any_of(masks.STANDARD, masks.W_0), aligned=False),
    ),
    "identifiability-4b-lowered": LOWERED_CLAIM(
        statement="Unaligned, W-asymmetric ResNets with σ_F of 2 and more have a clearly lower barrier than standard "
        "ones",
        quantity="largest drop of train accuracy as a fraction of theirs",
        bound=at_most(0.5),
        reason="The paper says unaligned connectivity is achieved to some degree; without a size stated, that is read "
        "as at least half of the standard barrier being gone.",
        measure=partial(drop_over_baseline, which=masks.W_FROM_2, baseline=masks.STANDARD),
        also=(),
        why="Not known. Neurons of these networks are no longer identifiable at the end of training (Fig. 3b).",
    ),
    "identifiability-4d-aligned": SHARE_CLAIM(
        statement="Aligned, two ResNets can be averaged: standard ones, with σ_F of 0 or of 2 and more, and syre ones",
        bound=at_most(LOW),
        origin="derived",
        reason=f"The paper calls the aligned barriers reasonably low: {TRAINED}.",
        measure=partial(
            share_lost, which=masks.any_of(masks.STANDARD, masks.W_0, masks.W_FROM_2, masks.SYRE), aligned=True
        ),
        also=("identifiability-4b",),
        why={
            "W σ_F = 2": "Why is not known. A matching other than the identity takes the fixed weights, which two "
            "networks share, apart.",
            "": "Of under-trained networks (the figure says how far they are), a few points are a large part.",
        },
    ),
    "identifiability-4d-alike": ALIKE_CLAIM(
        statement="Alignment helps ResNets with σ_F = 0 as much as standard ones",
        quantity="fraction of the unaligned barrier that alignment leaves, less that of standard ResNets",
        reason="As for MLPs in Fig. 4c.",
        also=("identifiability-4b",),
    ),
    "identifiability-4d-lowered": LOWERED_CLAIM(
        statement="Alignment lowers the barrier of standard ResNets and of those with σ_F = 0",
        bound=at_most(0.5),
        reason="The paper says alignment reduces both barriers similarly well, from high to reasonably low; half is "
        "the least that high and low differ by.",
        measure=partial(drop_left_by_alignment, which=masks.any_of(masks.STANDARD, masks.W_0)),
    ),
    "identifiability-4d-syre": LOWERED_CLAIM(
        statement="Alignment lowers the barrier of syre ResNets, whose symmetries are broken",
        bound=below(1),
        reason="The paper finds, to its surprise, that alignment reduces this barrier; no size is stated, so only the "
        "order is asked for.",
        measure=partial(drop_left_by_alignment, which=masks.SYRE),
    ),
}
