"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from symlab.study.card import Sentence

_DATA = {"digits": "digits", "mnist": "MNIST", "cifar10_jpeg": "CIFAR-10 (JPEG)"}
HEADING = "The deeper a network with weight decay, the tidier its classes"
HEADLINE = (
    Sentence(
        "Ten times as many blocks multiply the spread within a class, relative to that between classes, by "
        "**{nc1:^}**.",
        {"nc1": ("collapse-1-falls", "NC1, RN1 on digits")},
    ),
    Sentence(
        "If each block has two layers, by {split:^} with the weight decay that the theorems ask for, but by "
        "{control:^} with the same one at all depths: hardly at all, as the paper says.",
        {
            "split": ("collapse-1-falls-theorems", "NC1, RN2 split on digits"),
            "control": ("collapse-2-control", "NC1"),
        },
        "If each block has two layers, by {split:^} with the weight decay that the theorems ask for, but by "
        "{control:^} with the same one at all depths, where the paper says that hardly anything changes.",
    ),
)
THUMBNAIL = ("collapse-1", 0)

FOUND = (
    *(
        Sentence(
            f"On {name}, ten times as many blocks of one linear layer change log₁₀ NC1 by {{nc1}}, NC2 by {{nc2}} and "
            "NC3 by {nc3}.",
            {short.lower(): ("collapse-1-falls", f"{short}, RN1 on {data}") for short in ("NC1", "NC2", "NC3")},
        )
        for data, name in _DATA.items()
    ),
    *(
        Sentence(
            f"With two layers in each block on {name}, log₁₀ NC1 changes by {{change}} if {how}.",
            {"change": (f"collapse-1-falls-{claim}", f"NC1, RN2 {by} on {data}")},
        )
        for data, name in _DATA.items()
        for by, claim, how in (
            ("split", "theorems", "the last layer has the penalty λ and hidden ones λ/L, as the theorems ask"),
            ("uniform", "uniform", "all layers have the penalty λ/L, as the paper's Section 5 reads"),
        )
    ),
    Sentence(
        "Grown by splitting every block into two, networks end at {lower:%} of the loss above the optimum that "
        "training from scratch leaves.",
        {"lower": ("collapse-growth-lower", "RN1 on digits")},
    ),
    Sentence(
        "On as few MNIST images as they have dimensions, where the optimum is the same at every depth, log₁₀ NC1 "
        "changes with depth by {share:%} of what it does on five times as many.",
        {"share": ("collapse-few-flat", "NC1")},
    ),
    Sentence(
        "Collapsed inputs are perturbed a little, in directions that the last layer reads. Of NC1, networks of 21 "
        "layers with all penalties at λ/L leave {left:%}, and {seen:%} in directions that their last layer reads.",
        {
            "left": ("collapse-perturbed-uniform", "RN2 uniform, E in class space, L = 21"),
            "seen": ("collapse-perturbed-seen", "RN2 uniform, E in class space, L = 21"),
        },
    ),
    Sentence(
        "A network's loss sets an upper bound on its NC1; the closest network has {share:%} of its bound.",
        {"share": ("collapse-certificate-holds", "")},
    ),
)
TERMS = (
    ("NC1", "scatter of features within classes over the scatter of class means; 0 at collapse"),
    ("NC2", "how far the last layer is from a simplex of equal angles"),
    ("NC3", "how far features are from the row of their class, 1 - cosine"),
    ("RN1, RN2", "residual networks with one or two linear layers in each block"),
    ("T11", "causal transformer with one linear map for each of W_VO, W_QK and the MLP"),
)
SCALE = "MNIST, CIFAR-10 and IMDB, width 64, depths to 34, 5000 epochs, five seeds"
