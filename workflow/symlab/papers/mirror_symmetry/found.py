"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from symlab.study.card import Sentence

HEADING = "Noise and symmetry together switch parameters off"
HEADLINE = (
    Sentence(
        "If each weight is trained as a product of two, the noise of SGD drives weights to zero: half of them vanish "
        "at **{half} times** the learning rate that theory predicts.",
        {"half": ("mirror-3a-half", "σ = 2")},
    ),
    Sentence(
        "In networks that learn task after task, the symmetry leaves {dead:~%} more of the parameters dead when the "
        "last task comes.",
        {"dead": ("mirror-4-symmetry", "")},
    ),
    Sentence(
        "Of the paper's two remedies, a little noise leaves {noise:~%} dead, but a fixed bias {bias:~%}.",
        {"noise": ("mirror-4-noise", "noise"), "bias": ("mirror-4-bias", "bias")},
    ),
)
THUMBNAIL = ("mirror-3a", 0)

FOUND: tuple[Sentence, ...] = (
    Sentence(
        "If coefficients of a regression are trained as products u·w, half of them vanish at {half} times the learning "
        "rate that theory predicts.",
        {"half": ("mirror-3a-half", "σ = 2")},
    ),
    Sentence(
        "Noisy labels lower the rank of a product of two 50 × 50 matrices to the number of positive Lyapunov "
        "exponents, within {off:%} of 50. The paper's residual form, said to stay at full rank, keeps as little as "
        "{least:%} of it.",
        {"off": ("mirror-3b-exponents", "d = 50"), "least": ("mirror-3b-residual", "d = 50")},
    ),
    Sentence(
        "When the last task arrives, {dead:%} more of the parameters are dead with rescaling symmetry than without "
        "it. Of the paper's two remedies noise leaves {noise:%} dead, a fixed bias {bias:%}; a bias with weight decay "
        "leaves {both:%}.",
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
        "At a decay of 0.001, networks whose every parameter is a product are {gap} percentage points more accurate "
        "than vanilla ones, and {vanished:%} of their parameters vanish; vanilla networks pruned to the same size "
        "lose {lost} points more.",
        {
            "gap": ("mirror-7-accurate", "decay 0.001"),
            "vanished": ("mirror-7-sparse", "decay 0.001"),
            "lost": ("mirror-7-pruned", "decay 0.001, 95.4 % of the parameters"),
        },
    ),
    Sentence(
        "At every weight decay, the rank of two linear layers differs from the rank of the nuclear-norm minimum by at "
        "most {Ax} for random targets and {x} for y = x.",
        {"Ax": ("mirror-8-rank", "y = Ax"), "x": ("mirror-8-rank", "y = x")},
    ),
    Sentence(
        "In an attention layer with weight decay, the singular values of query and key differ by {Adam:%} of their "
        "norm under Adam and by {descent:%} under gradient descent.",
        {"Adam": ("mirror-9-values", "Adam"), "descent": ("mirror-9-values", "gradient descent")},
    ),
    Sentence(
        "Gradient descent on products with weight decay comes to the minimum of a lasso within {gap}; it takes "
        "{steps} decades more steps than ISTA.",
        {"gap": ("mirror-solvers-gap", "lasso"), "steps": ("mirror-solvers-steps", "lasso")},
    ),
)
TERMS = (
    ("mirror", "a subspace of parameters such that the loss of every sample is the same on both of its sides"),
    ("Λ", "mean log factor by which one SGD step changes the distance to the mirror; negative: the mirror attracts"),
    ("γ", "strength of the penalty γ|θ|², half of an optimizer's weight decay"),
    ("dead", "of a parameter: its gradient on the samples of a new task is at most 1e-6"),
    ("ISTA", "gradient steps, each followed by the exact step on the penalty"),
)
SCALE = "ResNet-18 on CIFAR-10 (Figs. 3 right, 6, 7), 200 inputs (Fig. 3), 50 × 50 factors (Fig. 8), one seed each"
