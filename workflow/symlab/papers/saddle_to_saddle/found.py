"""What the paper's studies found, in sentences; the words they use; the paper's own sizes."""

from symlab.study.card import Sentence

FOUND = (
    Sentence(
        "On the circle, descent from random weights finds a direction that leaves the origin faster than one neuron a "
        "layer can in {w4:%} of the runs at width 4, {w8:%} at width 8 and {w32:%} at width 32.",
        {f"w{width}": ("saddle-2-wide", f"width {width}") for width in (4, 8, 32)},
    ),
    Sentence(
        "The first escape leaves networks of depth 6 with nearly rank-one, nearly linear deep layers: the activations' "
        "distance from rank one falls to {B2:%} of its value at the start in layer 2 and to {B3:%} in layer 3, what "
        "relu cuts off to {D2:%} and {D3:%}.",
        {
            "B2": ("saddle-ratios-deep", "B_2"),
            "B3": ("saddle-ratios-deep", "B_3"),
            "D2": ("saddle-ratios-deep", "D_2"),
            "D3": ("saddle-ratios-deep", "D_3"),
        },
    ),
    Sentence(
        "After the first escape, layers from the third on lose {deep:%} of what keeps networks of depth 6 from the "
        "largest speed that could be, |X| |G|.",
        {"deep": ("saddle-budget-deep", "")},
    ),
    Sentence(
        "After their first escape, networks no longer point along a fast direction: it has {three:%} of one neuron's "
        "speed at depth 3 and {six:%} at depth 6.",
        {name: ("saddle-speeds-one-neuron", f"depth {L}") for name, L in (("three", 3), ("six", 6))},
    ),
    Sentence(
        "In linear networks, weights ten times smaller lengthen the second plateau by {linear} decades at depth 3, by "
        "{more} more than in ReLU networks.",
        {"linear": ("saddle-controls-linear", "depth 3"), "more": ("saddle-controls-relu", "depth 3")},
    ),
    Sentence(
        "On the circle, networks deeper than 3 come to {flat:%} of the certified limit of depth 3 and not beyond.",
        {"flat": ("saddle-depths-flat", "")},
    ),
)
TERMS = (
    ("localized loss L0", "the first-order change of the cost at the origin, of degree L in the weights"),
    ("escape direction", "weights of norm √L that gradient flow on L0 only scales; its speed is -L0 there"),
    ("A, B, D", "shares of weights (A) and activations (B) beyond rank one, and of what relu cuts off (D)"),
)
SCALE = "MNIST, six layers of 1000 neurons, 1000 epochs; the circle of eight points"
