"""What the paper's studies found, in sentences; the words they use; the paper's own sizes."""

from symlab.study.card import Sentence

FOUND: tuple[Sentence, ...] = (
    Sentence(
        "Trained online, half of a regression's coefficients that are products u w vanish at {half} times the rate "
        "that is predicted without a fit.",
        {"half": ("mirror-3a-half", "σ = 2")},
    ),
    Sentence(
        "Noisy labels lower the rank of a product of two 50 × 50 matrices to the number of positive Lyapunov "
        "exponents, within {off:%} of 50. The paper's residual form, said to stay at full rank, is left with as little "
        "as {least:%} of it.",
        {"off": ("mirror-3b-exponents", "d = 50"), "least": ("mirror-3b-residual", "d = 50")},
    ),
    Sentence(
        "When the last task arrives, {dead:%} more of the parameters are dead with rescaling symmetry than without "
        "it. Of the paper's two remedies noise leaves {noise:%} dead, a fixed bias {bias:%}; with weight decay, a "
        "bias leaves {both:%}.",
        {
            "dead": ("mirror-4-symmetry", ""),
            "noise": ("mirror-4-noise", "noise"),
            "bias": ("mirror-4-bias", "bias"),
            "both": ("mirror-4-bias-and-decay", "bias and decay"),
        },
    ),
    Sentence(
        "With a weight decay of 0.005, {alike:%} of the pairs of neurons of an MNIST network's last hidden layer are "
        "perfectly correlated, and {merged:%} have merged weights.",
        {
            "alike": ("mirror-6-correlated", "decay 0.005, before the activation"),
            "merged": ("mirror-6-merged", "decay 0.005, before the activation"),
        },
    ),
    Sentence(
        "Networks whose every parameter is a product are {gap} percentage points more accurate than vanilla ones at a "
        "decay of 0.001, where {vanished:%} of their parameters vanish; vanilla ones cut to that lose {lost} points "
        "more.",
        {
            "gap": ("mirror-7-accurate", "decay 0.001"),
            "vanished": ("mirror-7-sparse", "decay 0.001"),
            "lost": ("mirror-7-pruned", "decay 0.001, 95.4 % of the parameters"),
        },
    ),
    Sentence(
        "Over all weight decays, the rank of two linear layers is at most {Ax} from that of the nuclear-norm "
        "minimum for random targets, and {x} for y = x.",
        {"Ax": ("mirror-8-rank", "y = Ax"), "x": ("mirror-8-rank", "y = x")},
    ),
    Sentence(
        "In an attention layer with weight decay the singular values of query and key come to within {Adam:%} of their "
        "norm under Adam and {descent:%} under gradient descent.",
        {"Adam": ("mirror-9-values", "Adam"), "descent": ("mirror-9-values", "gradient descent")},
    ),
    Sentence(
        "Gradient descent on products with weight decay comes to the minimum of a lasso within {gap}; its steps are "
        "{steps} decades more than those of ISTA.",
        {"gap": ("mirror-solvers-gap", "lasso"), "steps": ("mirror-solvers-steps", "lasso")},
    ),
)
TERMS = (
    ("mirror", "a subspace of parameters such that the loss of every sample is the same on both of its sides"),
    (
        "Λ",
        "expected logarithm of what a step of SGD multiplies the distance from a mirror with; below 0 mirrors attract",
    ),
    ("γ", "strength of the penalty γ|θ|², half of an optimizer's weight decay"),
    ("dead", "of a parameter: its gradient on the samples of a new task is at most 1e-6"),
    ("ISTA", "gradient steps, each followed by the exact step on the penalty"),
)
SCALE = "ResNet-18 on CIFAR-10 (Figs. 3 right, 6, 7), 200 inputs (Fig. 3), 50 × 50 factors (Fig. 8), one seed each"
