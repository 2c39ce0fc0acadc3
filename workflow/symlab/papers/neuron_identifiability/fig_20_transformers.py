"""Fig. 20: train accuracy on the straight line between two vision transformers."""

import operator
from collections.abc import Callable
from functools import partial

from symlab.papers.neuron_identifiability.fig_04_paths import HIGH, LOW, TRAINED, draw_paths, over_chance, share_lost
from symlab.papers.neuron_identifiability.masks import STANDARD, W_0, W_1, Mask, any_of
from symlab.papers.neuron_identifiability.rows import one_path
from symlab.papers.neuron_identifiability.variants import by_variant
from symlab.study.card import Drawing
from symlab.study.cases import Cases
from symlab.study.claim import Claim, Found, Tables, at_least, between, worst_of_each

FIGURES = {
    "identifiability-20": Drawing(
        "Train accuracy along the unaligned path, ViTs",
        "Train accuracy on the straight line between two vision transformers of a pair, unaligned, study `{study}`: "
        "λ = 0 is the first network, λ = 1 the second. A line that sags is a barrier.",
        partial(draw_paths, titles={False: "unaligned"}),
        seen="At the midpoint {barrier:%} of what the networks have over chance is lost, {remaining:%} with σ_F = 1.",
    ),
}


def midpoint_gain(
    tables: Tables, which: Mask, baselines: tuple[Mask, ...], score: Callable[[float], float]
) -> list[Found]:
    """By how much the train accuracy at the unaligned midpoint exceeds a baseline's, as a share of what that one's
    networks have over chance.

    Of the gains over all baselines on the data set, that with the largest score. Every kind of baseline is needed.
    """
    curves = one_path(tables["curves.csv"], "train", aligned=False)
    middle = curves[curves["lambda"] == 0.5].assign(percent=lambda rows: 100 * rows["accuracy"])
    here, kinds = by_variant(middle, "percent", which), [by_variant(middle, "percent", kind) for kind in baselines]
    if not all(map(len, kinds)):
        return []
    gains = [
        gain
        for kind in kinds
        for base, over in kind.beside(over_chance(tables))
        for gain in (here / over.mean).differences(Cases((base,)).keyed("dataset") / over.mean)
    ]
    return worst_of_each(gains, score)


_claim = partial(Claim, owner="paper", origin="derived", tables=("curves.csv",))
MIDPOINT_CLAIM = partial(
    _claim,
    quantity="midpoint drop of train accuracy as a share of what the networks have over chance",
    bound=at_least(HIGH),
    origin="pilot",
    tables=("barriers.csv", "curves.csv"),
)
CLAIMS = {
    "identifiability-20-barrier": MIDPOINT_CLAIM(
        statement="Unaligned, standard vision transformers and those with σ_F = 0 have a pronounced barrier",
        reason="The paper calls the barrier pronounced and finds masks alone to match it; a third, as in Fig. 4b.",
        measure=partial(share_lost, which=any_of(STANDARD, W_0), aligned=False, column="drop_mid_pp"),
    ),
    "identifiability-20-alike": _claim(
        statement="Unaligned, vision transformers with σ_F = 0 are like standard ones",
        quantity="difference of the train accuracies at the midpoint as a share of what standard networks have over "
        "chance",
        bound=between(-LOW / 2, LOW / 2),
        reason=f"The paper says that they closely match; close is read as half of what counts as low: {TRAINED}.",
        measure=partial(midpoint_gain, which=W_0, baselines=(STANDARD,), score=abs),
    ),
    "identifiability-20-higher": _claim(
        statement="Unaligned, vision transformers with σ_F = 1 are better at the midpoint than standard ones and "
        "those with σ_F = 0",
        quantity="gain in train accuracy over the higher of the two as a share of what that one's networks have over "
        "chance",
        bound=at_least(LOW),
        reason=f"The paper says substantially higher midpoint accuracy: at least {TRAINED}.",
        measure=partial(midpoint_gain, which=W_1, baselines=(STANDARD, W_0), score=operator.neg),
        why="In short training, transformers with σ_F = 1 reach less themselves; so does the middle between two.",
    ),
    "identifiability-20-remaining": MIDPOINT_CLAIM(
        statement="Unaligned, vision transformers with σ_F = 1 still have a barrier",
        reason="The paper says that the curve remains well below the endpoints; a third, as for the other barriers.",
        measure=partial(share_lost, which=W_1, aligned=False, column="drop_mid_pp"),
    ),
}
