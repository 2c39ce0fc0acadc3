"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes."""

from functools import partial

from symlab.study.card import sentence_of

_say = partial(sentence_of, "saddle")

HEADING = "From tiny weights, a deep network first learns something very simple"
HEADLINE = (
    _say(
        "When networks of six layers first grow out of tiny weights, the second singular value of a layer is on "
        "average **{ladder-rank(L=6, std=1e-4):~%}** of the first, in the layer where it is largest (0: rank one)."
    ),
    _say(
        "The direction in which they grow is off one that the theory predicts by {ladder-direction(L=6, std=1e-4):~%} "
        "of its length."
    ),
    _say(
        "The paper: networks with one neuron a layer are not always the fastest. On its eight points of a circle, with "
        "three layers, {2-wide(width=4):~%} of searches from random weights find a faster way at 4 neurons a layer, "
        "{2-wide(width=32):~%} at 32."
    ),
)
THUMBNAIL = (
    "saddle-2",
    1,
    "Blue: searches that end faster than networks with one neuron a layer (dashed), grey: others; dotted: the limit.",
)

FOUND = (
    _say(
        "Networks of depth 6 that start from weights of standard deviation 0.0001 leave the origin along a direction "
        "that the theory predicts, but for {ladder-direction(L=6, std=1e-4)} of its length, at "
        "{speeds-one-neuron(L=6, std=1e-4):%} of the speed of the fastest network with one neuron a layer."
    ),
    _say(
        "When they leave, the weights of every layer, the first too, are nearly of rank one: the second singular value "
        "is at most {ladder-rank(L=4, std=1e-4)} of the first at depth 4, {ladder-rank(L=6, std=1e-4)} at depth 6."
    ),
    _say(
        "From equal weights, deep layers are {ladder-depth(std=1e-4)} times farther from rank one at depth 3 than at "
        "depth 4: ReLU networks need small weights and depth.",
        "From equal weights, deep layers are {ladder-depth(std=1e-4)} times farther from rank one at depth 3 than at "
        "depth 4, not ten times.",
    ),
    _say(
        "On the circle, descent from random weights finds a direction that leaves the origin faster than one neuron a "
        "layer can in {2-wide(width=4):%} of the runs at width 4, {2-wide(width=8):%} at width 8 and "
        "{2-wide(width=32):%} at width 32."
    ),
    _say(
        "On the circle, networks deeper than 3 come to {depths-flat:%} of the certified limit of depth 3 and not "
        "beyond."
    ),
    _say(
        "At the paper's size, six layers and 1000 neurons wide, its learning rule needs, by forecast, "
        "{time-printed(std=1e-3)} times the steps of its printed run to leave."
    ),
    _say(
        "SGD at the paper's rate leaves after {time-sgd(L=6, std=1e-4)} times the steps that gradient flow forecasts, "
        "at depth 6."
    ),
)
TERMS = (
    ("localized loss L0", "the first-order change of the cost at the origin, of degree L in the weights"),
    ("escape direction", "weights of norm √L that gradient flow on L0 only scales; its speed is -L0 there"),
    ("A, B, D", "shares of weights (A) and activations (B) beyond rank one, and of what relu cuts off (D)"),
)
SCALE = "MNIST, six layers, 1000 neurons wide, 1000 epochs; the circle of eight points"
SUBJECTS = "ReLU networks without biases that descend from tiny weights, on images and on eight points of a circle"
