"""What the paper's studies found, in sentences; the words they use; the paper's own sizes."""

from symlab.study.card import Sentence

_DATA = {"digits": "digits", "mnist": "MNIST", "cifar10_jpeg": "CIFAR-10 (JPEG)"}
FOUND = (
    *(
        Sentence(
            f"On {name}, in residual networks with one linear layer a block log₁₀ NC1 changes by {{nc1}} for each "
            "factor of ten in depth, NC2 by {nc2} and NC3 by {nc3}.",
            {short.lower(): ("collapse-1-falls", f"{short}, RN1 on {data}") for short in ("NC1", "NC2", "NC3")},
        )
        for data, name in _DATA.items()
    ),
    *(
        Sentence(
            f"With two layers in each block on {name} it changes by {{change}} where {how}.",
            {"change": (f"collapse-1-falls-{claim}", f"NC1, RN2 {by} on {data}")},
        )
        for data, name in _DATA.items()
        for by, claim, how in (
            ("split", "theorems", "the last layer keeps its penalty λ and hidden ones have λ/L"),
            ("uniform", "uniform", "all penalties are λ/L, as the paper's Section 5 reads"),
        )
    ),
    Sentence(
        "Grown by splitting every block into two, networks end at {lower:%} of the loss over the optimum that training "
        "from scratch leaves.",
        {"lower": ("collapse-growth-lower", "RN1 on digits")},
    ),
    Sentence(
        "On as few MNIST images as they have dimensions, where the optimum is the same at every depth, log₁₀ NC1 "
        "changes with depth by {share:%} of what it does on five times as many.",
        {"share": ("collapse-few-flat", "NC1")},
    ),
    Sentence(
        "Of a small perturbation of collapsed inputs, which the last layer reads, networks of 21 layers with all "
        "penalties at λ/L leave {left:%} of NC1, and {seen:%} in sight of the last layer.",
        {
            "left": ("collapse-perturbed-uniform", "RN2 uniform, E in class space, L = 21"),
            "seen": ("collapse-perturbed-seen", "RN2 uniform, E in class space, L = 21"),
        },
    ),
    Sentence(
        "A network's loss bounds NC1: the closest of the networks comes to {share:%} of its bound.",
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
