"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from symlab.study.card import Sentence, at

HEADING = "Noise and symmetry together switch parameters off"
HEADLINE = (
    Sentence(
        "In a regression whose coefficients are products of two weights, high learning rates drive them to zero by "
        "SGD's noise, half of them at **{half}** times the rate that we derive from the theory for runs of this length "
        "(σ: noise of the targets).",
        {"half": at("mirror-3a-half")},
    ),
    Sentence(
        "After several tasks in a row parameters of such products may have no gradient any more. With the paper's "
        "first remedy, a fixed bias, {bias:~%} have none (threshold: at most 1 %), with its second, noise on the "
        "gradients, {noise:~%}.",
        {"bias": at("mirror-4-bias"), "noise": at("mirror-4-noise")},
    ),
    Sentence(
        "Without a remedy {dead:~%} of the parameters more have none than in plain regressions.",
        {"dead": at("mirror-4-symmetry")},
    ),
    Sentence(
        "The paper says that a model's capacity “can only decrease”; with Adam, of the parameters without a gradient "
        "{stay:~%} have none at the next task either.",
        {"stay": at("mirror-4-contained", variant="Hadamard", lr=0.01)},
    ),
)
THUMBNAIL = "mirror-3a", 0, "Blue: products of two, points measured, line by theory; orange: plain coefficients."

FOUND: tuple[Sentence, ...] = (
    Sentence(
        "If coefficients of a regression are trained as products u·w, half of them vanish at {half} times the learning "
        "rate that theory predicts.",
        {"half": at("mirror-3a-half")},
    ),
    Sentence(
        "Below the rate from which mirrors attract, the share of coefficients next to 0 differs by {off} from a Gamma "
        "law without a fit (below 1e-6, at 0.7 of that rate).",
        {"off": at("mirror-phase-stationary", power=6, rate=0.7)},
    ),
    Sentence(
        "The paper's residual form (I + W)(I + U), said to lose no rank, keeps as little as {least:%} of full rank.",
        {"least": at("mirror-3b-residual")},
    ),
    Sentence(
        "When the last task arrives, {symmetry:%} more of the parameters are dead with rescaling symmetry than without "
        "it. Of the paper's two remedies noise leaves {noise:%} dead, a fixed bias {bias:%}; a bias with weight decay "
        "leaves {bias-and-decay:%}.",
        {name: at(f"mirror-4-{name}") for name in ("symmetry", "noise", "bias", "bias-and-decay")},
    ),
    Sentence(
        "With the largest weight decay, {alike:%} more pairs of neurons of the last hidden layer are perfectly "
        "correlated than without decay or before training.",
        {"alike": at("mirror-6-blocks", kind="pre")},
    ),
    Sentence(
        "Networks whose every parameter is a product are {gap} percentage points more accurate than vanilla ones at a "
        "decay of 0.",
        {"gap": at("mirror-7-accurate", weight_decay=0.0)},
        "Without decay, networks of products alone are less accurate than vanilla ones: by {gap} percentage points.",
    ),
    Sentence(
        "Over weight decays, the rank of two linear layers differs in the mean by {Ax} from the rank of the "
        "nuclear-norm minimum for random targets, and by {x} for y = x.",
        {"Ax": at("mirror-8-rank", labels="y = Ax"), "x": at("mirror-8-rank", labels="y = x")},
    ),
    Sentence(
        "In an attention layer with weight decay, the distance of query's and key's singular values falls to {Adam:%} "
        "of that at the start under Adam and to {descent:%} under gradient descent.",
        {
            "Adam": at("mirror-9-values", optimizer="Adam"),
            "descent": at("mirror-9-values", optimizer="gradient descent"),
        },
    ),
    Sentence(
        "Gradient descent on products with weight decay comes ever nearer to the minimum of a lasso: twice the steps "
        "leave {gap} of the gap. It takes {steps} decades more steps than ISTA.",
        {"gap": at("mirror-solvers-gap", problem="lasso"), "steps": at("mirror-solvers-steps", problem="lasso")},
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
