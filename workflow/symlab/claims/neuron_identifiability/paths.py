"""Claims about the networks between two trained ones: Figs. 4, 6, 20."""

from __future__ import annotations

from functools import partial

import numpy as np

from symlab.claims import connectivity
from symlab.papers.claim import at_least, at_most, below, between
from symlab.claims.neuron_identifiability.stated import (
    STANDARD,
    SYRE,
    SYRE_FROM_1,
    W_0,
    W_1,
    W_FROM_1,
    W_FROM_2,
    W,
    stated,
)
from symlab.claims.variants import any_of

FIG_4 = (
    stated(
        "4a-barrier",
        "4a",
        "Unaligned, two standard networks or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; ten percentage points are far more than networks of one kind differ by.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
        also=("4",),
    ),
    stated(
        "4a-connected",
        "4a",
        "Unaligned, two networks with sigma_F of 1 and more can be averaged: largest drop "
        "of train accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says unaligned connectivity is achieved for large sigma_F; "
        "connected is read as less than a third of a high barrier.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(W_FROM_1, SYRE_FROM_1), aligned=False),
        also=("4",),
    ),
    stated(
        "4c-aligned",
        "4c",
        "Aligned, every pair of networks can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says all models have reasonably low barriers once aligned; "
        "the same few points as for the identifiable ones.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W, SYRE), aligned=True),
        also=("4",),
    ),
)

FIG_4_RESNETS = (
    stated(
        "4b-barrier",
        "4b",
        "Unaligned, two standard ResNets or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; for large sigma_F it claims "
        "connectivity only to some degree, so no bound is set there.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
    ),
    stated(
        "4b-lowered",
        "4b",
        "Unaligned, W-asymmetric ResNets with sigma_F of 2 and more have a clearly lower barrier than standard ones: "
        "largest drop of train accuracy as a fraction of theirs",
        at_most(0.5),
        "The paper says unaligned connectivity is achieved to some degree; without a size stated, that is "
        "read as at least half of the standard barrier being gone.",
        "barriers.csv",
        partial(connectivity.drop_over_baseline, which=W_FROM_2, baseline=STANDARD),
    ),
    stated(
        "4d-aligned",
        "4d",
        "Aligned, every pair of ResNets can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(10, "pp"),
        "The paper calls the aligned barriers reasonably low: below what counts as high in Fig. 4b.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0, W_FROM_2, SYRE), aligned=True),
        also=("4b",),
    ),
    stated(
        "4d-lowered",
        "4d",
        "Alignment lowers the barrier of standard ResNets and of those with sigma_F = 0: "
        "largest drop of train accuracy as a fraction of the unaligned one",
        at_most(0.5),
        "The paper says alignment reduces both barriers similarly well, from high to reasonably low; "
        "half is the least that high and low differ by.",
        "barriers.csv",
        partial(connectivity.drop_left_by_alignment, which=any_of(STANDARD, W_0)),
        also=("4b",),
    ),
    stated(
        "4d-syre",
        "4d",
        "Alignment lowers the barrier of syre ResNets, whose symmetries are broken: "
        "largest drop of train accuracy as a fraction of the unaligned one",
        below(1),
        "The paper finds, to its surprise, that alignment reduces this barrier; "
        "no size is stated, so only the order is asked for.",
        "barriers.csv",
        partial(connectivity.drop_left_by_alignment, which=SYRE),
        also=("4b",),
    ),
)

FIG_6 = (
    stated(
        "6-ends",
        "6",
        "With F = 0, coherent data make networks connected: midpoint test-loss "
        "barrier at nu = 1 as a fraction of that at nu = 0.1",
        below(0.2),
        "The paper calls the barrier high at low and low at high coherence; a factor of five tells high from low.",
        "barriers.csv",
        connectivity.coherent_over_incoherent,
    ),
    stated(
        "6-trend",
        "6",
        "With F = 0, the mean midpoint barrier falls as nu rises: Spearman correlation over the levels of nu",
        at_most(-0.9),
        "The paper says connectivity depends on coherence in this direction, for both "
        "embeddings; -0.9 lets neighbouring levels change places.",
        "barriers.csv",
        connectivity.barrier_against_coherence,
    ),
)

FIG_20 = (
    stated(
        "20-barrier",
        "20",
        "Unaligned, standard vision transformers and those with sigma_F = 0 have a "
        "pronounced barrier: midpoint drop of train accuracy, mean over pairs",
        at_least(10, "pp"),
        "The paper calls the barrier pronounced and finds masks alone to match it; ten points as in Fig. 4.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False, column="drop_mid_pp"),
    ),
    stated(
        "20-alike",
        "20",
        "Unaligned, vision transformers with sigma_F = 0 are like standard ones: "
        "difference of the train accuracies at the midpoint, mean over pairs",
        between(-5, 5, "pp"),
        "The paper says they closely match; close is read as half of what counts as a barrier.",
        "curves.csv",
        partial(connectivity.midpoint_gain, which=W_0, baselines=(STANDARD,), worst=np.abs),
    ),
    stated(
        "20-higher",
        "20",
        "Unaligned, vision transformers with sigma_F = 1 are better at the midpoint than standard ones and those with "
        "sigma_F = 0: gain in train accuracy over the higher of the two, mean over pairs",
        at_least(10, "pp"),
        "The paper says substantially higher; a difference as large as what counts as a barrier is substantial.",
        "curves.csv",
        partial(connectivity.midpoint_gain, which=W_1, baselines=(STANDARD, W_0), worst=np.negative),
    ),
    stated(
        "20-remaining",
        "20",
        "Unaligned, vision transformers with sigma_F = 1 still have a barrier: "
        "midpoint drop of train accuracy, mean over pairs",
        at_least(10, "pp"),
        "The paper says the midpoint remains well below the endpoints; ten points, as for the other barriers.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=W_1, aligned=False, column="drop_mid_pp"),
    ),
)

CLAIMS = (*FIG_4, *FIG_4_RESNETS, *FIG_6, *FIG_20)
