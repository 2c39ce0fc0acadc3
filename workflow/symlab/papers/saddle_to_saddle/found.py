"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from symlab.study.card import Sentence

HEADING = "From tiny weights, a deep network first learns something very simple"
HEADLINE = (
    Sentence(
        "When networks of six layers leave the point where all weights are zero, their deep layers carry a single "
        "direction: of all others, **{B3:~%}** is left in layer 3.",
        {"B3": ("saddle-ratios-deep", "B_3")},
    ),
    Sentence(
        "Some runs leave faster than any single neuron can: {w4:~%} of them with 4 neurons a layer, {w32:~%} with 32.",
        {"w4": ("saddle-2-wide", "width 4"), "w32": ("saddle-2-wide", "width 32")},
    ),
    Sentence(
        "They leave in a direction that the theory predicts.",
        {"direction": ("saddle-ratios-direction", "")},
        "But the direction in which they leave is not one that the theory predicts.",
    ),
)
THUMBNAIL = ("saddle-2", 1)

FOUND = (
    Sentence(
        "On the circle, descent from random weights finds a direction that leaves the origin faster than one neuron a "
        "layer can in {w4:%} of the runs at width 4, {w8:%} at width 8 and {w32:%} at width 32.",
        {f"w{width}": ("saddle-2-wide", f"width {width}") for width in (4, 8, 32)},
    ),
    Sentence(
        "At the first escape of networks of depth 6, the activations' distance from rank one is {B2:%} of its value at "
        "the start in layer 2 and {B3:%} in layer 3; what relu cuts off is {D2:%} and {D3:%} of it.",
        {
            "B2": ("saddle-ratios-deep", "B_2"),
            "B3": ("saddle-ratios-deep", "B_3"),
            "D2": ("saddle-ratios-deep", "D_2"),
            "D3": ("saddle-ratios-deep", "D_3"),
        },
    ),
    Sentence(
        "After the first escape, networks of depth 6 are slower than the largest possible speed, |X| |G|; layers from "
        "the third on account for {deep:%} of that.",
        {"deep": ("saddle-budget-deep", "")},
    ),
    Sentence(
        "After their first escape, networks no longer point along a fast direction: it has {three:%} of one neuron's "
        "speed at depth 3 and {six:%} at depth 6.",
        {name: ("saddle-speeds-one-neuron", f"depth {L}") for name, L in (("three", 3), ("six", 6))},
    ),
    Sentence(
        "In linear networks of depth 3, weights ten times smaller lengthen the second plateau by {linear} decades, "
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
