"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from symlab.study.card import Sentence, at

_IMAGES = {"digits": "digits", "mnist": "MNIST", "cifar10_jpeg": "CIFAR-10 in JPEG"}
DATA = {**_IMAGES, "imdb": "movie reviews"}
NETWORKS = {
    "rn1": "residual networks with one linear layer a block (RN1)",
    "rn2": "residual networks with two linear layers a block (RN2)",
    "t11": "transformers (T11)",
    "t12": "transformers with two linear layers in each MLP (T12)",
    "t21": "transformers with two linear layers in each attention (T21)",
    "t22": "transformers with two linear layers in each attention and MLP (T22)",
}
PENALTIES = {"constant": "λ at every depth", "uniform": "all penalties at λ/L", "split": "hidden penalties at λ/L"}
VALUES = {
    "NC1": "spread within classes (NC1)",
    "NC2": "last layer off equal angles (NC2)",
    "NC3": "features off their class's row (NC3)",
    "NC1_row": "spread that the last layer sees",
    "NC1_null": "spread that the last layer does not see",
    "NC1_test": "spread within classes of test samples (NC1)",
    "excess": "loss over that of free features",
    "hidden": "penalty of the blocks",
}
"""What names of cases call data sets, networks, penalties by depth and values."""
HEADING = "The deeper a network with weight decay, the tidier its classes"
HEADLINE = (
    Sentence(
        "In residual networks with weight decay, each depth trained from random weights, twice the depth multiplies "
        "the spread of features within classes, relative to that between classes, by **{nc1:^2}**.",
        {"nc1": at("collapse-1-falls", value="NC1", network="rn1", fitting=False)},
    ),
    Sentence(
        "Near an optimum of residual networks with weight decay, of which the theorems speak, twice the depth "
        "multiplies the spread within classes by {nc1:^2}.",
        {"nc1": at("collapse-1-falls-theorems", value="NC1", network="rn1", loss="cross_entropy", pre_norm=False)},
    ),
    Sentence(
        "Near one of networks with two layers a block and the theorems' weight decay, by {split:^2}.",
        {"split": at("collapse-1-falls-theorems", value="NC1", network="rn2", by_depth="split", loss="cross_entropy")},
    ),
)
THUMBNAIL = (
    "collapse-1",
    0,
    "Spread within classes relative to that between them, deeper networks to the right; band: one standard deviation, "
    "crosses: minimised for longer.",
)

_PLAIN = {"loss": "cross_entropy"}
_SPLIT, _UNIFORM = {"by_depth": "split"}, {"by_depth": "uniform", "fitting": False}

FOUND = (
    *(
        Sentence(
            f"On {name}, ten times the depth L changes log₁₀ NC1 by {{nc1}}, NC2 by {{nc2}} and NC3 by {{nc3}} in "
            f"{networks}{how}.",
            {
                value.lower(): at(f"collapse-1-{claim}", value=value, network=network, dataset=data, **more)
                for value in ("NC1", "NC2", "NC3")
            },
        )
        for network, networks, names in (
            ("rn1", "residual networks with one linear layer a block", _IMAGES),
            ("t11", "transformers", DATA),
        )
        for data, name in names.items()
        for claim, how, more in (
            ("falls", ", each depth trained by itself", {"fitting": False}),
            ("falls-theorems", " at an optimum", {**_PLAIN, "every_token": False, "pre_norm": data == "imdb"}),
        )
    ),
    *(
        Sentence(
            f"With two layers in each block on {name}, log₁₀ NC1 changes by {{change}} if {how}.",
            {"change": at(f"collapse-1-falls-{claim}", value="NC1", network="rn2", dataset=data, **_PLAIN, **more)},
        )
        for data, name in _IMAGES.items()
        for claim, more, how in (
            ("theorems", _SPLIT, "the last layer has the penalty λ and hidden ones λ/L, as the theorems ask"),
            ("uniform", _UNIFORM, "each depth is trained alone with λ/L of all layers"),
        )
    ),
    Sentence(
        "With two layers in each block and the same weight decay at all depths, ten times the depth changes log₁₀ NC1 "
        "by {control}; the paper says that depth hardly matters there.",
        {"control": at("collapse-2-control", value="NC1", fitting=False)},
    ),
    Sentence(
        "After as many gradients, networks grown from shallower ones have {lower:%} of the loss over free "
        "features that networks trained from scratch have.",
        {"lower": at("collapse-loss-grown")},
    ),
    Sentence(
        "New branches of two-layer blocks grow below {switch} times the predicted penalty, and living ones hold out to "
        "{living} times that.",
        {"switch": at("collapse-critical-switch"), "living": at("collapse-critical-hysteresis")},
    ),
    Sentence(
        "On as few MNIST images as they have dimensions, where the optimum is collapsed and the same at every depth, "
        "losses of all depths are at most {share:%} above it.",
        {"share": at("collapse-few-optimum")},
    ),
    Sentence(
        "Collapsed inputs are perturbed a little, in directions that the last layer reads. Of NC1, networks of 21 "
        "layers with all penalties at λ/L leave {left:%}, and {seen:%} in directions that their last layer reads.",
        {
            "left": at("collapse-perturbed-uniform", placement="class space"),
            "seen": at("collapse-perturbed-seen", placement="class space"),
        },
    ),
    Sentence(
        "A network's loss sets an upper bound on its NC1: of all networks, the one nearest to its bound has {share:%} "
        "of it.",
        {"share": at("collapse-certificate-holds", quantity="NC1")},
    ),
)
TERMS = (
    ("NC1", "scatter of features within classes over the scatter of class means; 0 at collapse"),
    ("NC2", "how far the last layer is from a simplex of equal angles"),
    ("NC3", "how far features are from the row of their class, 1 - cosine"),
    ("RN1, RN2", "residual networks with one or two linear layers in each block"),
    ("T11", "causal transformer with one linear map for each of W_VO, W_QK and the MLP"),
    ("lineage", "networks of rising depth from one random start, each grown from the one before"),
    ("at an optimum", "within 5 % of the least loss that is known of the setting and depth"),
)
SCALE = "MNIST, CIFAR-10 and IMDB, width 64, depths to 34, 5000 epochs, five seeds"
SUBJECTS = "residual networks of linear layers and ReLU, minimised on all samples at once"
