"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from functools import partial

from symlab.study.card import sentence_of

_say = partial(sentence_of, "mirror")

HEADING = "Noise and symmetry together switch parameters off"
HEADLINE = (
    _say(
        "In a regression whose coefficients are products of two weights, high learning rates drive them to zero by "
        "SGD's noise, half of them at **{3a-half}** times the rate that we derive from the theory for runs of this "
        "length (σ: noise of the targets)."
    ),
    _say(
        "After several tasks in a row parameters of such products may have no gradient any more. With the paper's "
        "first remedy, a fixed bias, {4-bias:~%} have none (threshold: at most 1 %), with its second, noise on the "
        "gradients, {4-noise:~%}."
    ),
    _say("Without a remedy {4-symmetry:~%} of the parameters more have none than in plain regressions."),
    _say(
        "The paper says that a model's capacity “can only decrease”; with Adam, of the parameters without a gradient "
        "{4-contained(variant=Hadamard, lr=0.01):~%} have none at the next task either."
    ),
)
THUMBNAIL = "mirror-3a", 0, "Blue: products of two, points measured, line by theory; orange: plain coefficients."

FOUND = (
    _say(
        "If coefficients of a regression are trained as products u·w, half of them vanish at {3a-half} times the "
        "learning rate that theory predicts."
    ),
    _say(
        "Below the rate from which mirrors attract, the share of coefficients next to 0 differs by "
        "{phase-stationary(power=6, rate=0.7)} from a Gamma law without a fit (below 1e-6, at 0.7 of that rate)."
    ),
    _say(
        "The paper's residual form (I + W)(I + U), said to lose no rank, keeps as little as {3b-residual:%} of full "
        "rank."
    ),
    _say(
        "When the last task arrives, {4-symmetry:%} more of the parameters are dead with rescaling symmetry than "
        "without it. Of the paper's two remedies noise leaves {4-noise:%} dead, a fixed bias {4-bias:%}; a bias with "
        "weight decay leaves {4-bias-and-decay:%}."
    ),
    _say(
        "With the largest weight decay, {6-blocks(kind=pre):%} more pairs of neurons of the last hidden layer are "
        "perfectly correlated than without decay or before training."
    ),
    _say(
        "Networks whose every parameter is a product are {7-accurate(weight_decay=0.0)} percentage points more "
        "accurate than vanilla ones at a decay of 0.",
        "Without decay, networks of products alone are less accurate than vanilla ones: by "
        "{7-accurate(weight_decay=0.0)} percentage points.",
    ),
    _say(
        "Over weight decays, the rank of two linear layers differs in the mean by {8-rank(labels=y = Ax)} from the "
        "rank of the nuclear-norm minimum for random targets, and by {8-rank(labels=y = x)} for y = x."
    ),
    _say(
        "In an attention layer with weight decay, the distance of query's and key's singular values falls to "
        "{9-values(optimizer=Adam):%} of that at the start under Adam and to "
        "{9-values(optimizer=gradient descent):%} under gradient descent."
    ),
    _say(
        "Gradient descent on products with weight decay comes ever nearer to the minimum of a lasso: twice the steps "
        "leave {solvers-gap(problem=lasso)} of the gap. It takes {solvers-steps(problem=lasso)} decades more steps "
        "than ISTA."
    ),
)
TERMS = (
    ("mirror", "a subspace of parameters such that the loss of every sample is the same on both of its sides"),
    ("Λ", "mean log factor by which one SGD step changes the distance to the mirror; negative: the mirror attracts"),
    ("γ", "strength of the penalty γ|θ|², half of an optimizer's weight decay"),
    ("dead", "of a parameter: its gradient on the samples of a new task is at most 1e-6"),
    ("ISTA", "gradient steps, each followed by the exact step on the penalty"),
)
SCALE = (
    "ResNet-18 on CIFAR-10 (Figs. 3 right, 6, 7), 200 inputs (Fig. 3), 50 × 50 factors (Fig. 8), 500 points of 50 × "
    "101 (Figs. 9, 10)"
)
SUBJECTS = (
    "linear regressions whose weights are products of two factors, products of two matrices, a layer of attention"
)
