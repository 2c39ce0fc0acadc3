"""What the commands' help says before and after their options."""

DESCRIPTION = """\
symlab measures what the parameter symmetries of neural networks do.

This program is for people who bring their own trained networks. The studies of the papers
are a Snakemake workflow, which is run with snakemake instead: see README.md.
"""
ALIGN = """\
Renumber the neurons of network B so that they play the roles of network A's, and measure what
lies on the straight line between the two: two trainings of one architecture, from two seeds,
usually differ by such a renumbering more than by anything else.

A and B are files of module.state_dict(), .safetensors or .pt, .pth, .bin, .ckpt (read without running any code in
them), or folders that hold one (or shards).

Which axes of which weights must be renumbered together is found by tracing the network; nothing
has to be declared. Operations that the tracer does not know are named, and what they touch stays
in place. Before anything is written, the renumbered network is checked to compute what B does.
"""
MERGE = """\
Renumber the neurons of several trainings of one architecture so that all have the order of the first, average
their weights, and score the average beside the networks, their average without renumbering, and the mean of
their outputs (a ceiling, for which all networks are computed).

Each network is matched to the mean of the others, in turns, until none moves any more. Batch norm statistics of
the average are estimated anew on the data. Files and symmetries are as for symlab align.
"""
DIAGNOSE = """\
Tell neuron by neuron whether two trainings of one architecture have it in the same place: its partner in the best
matching, how well both correlate, and what exchanging it with another would cost in weight norm.

Weights that are equal in both networks count as fixed: where all are trained, every swap is free and its cost 0.
"""
ESCAPE = """\
Follow a network from its initial weights along gradient flow until it has left the saddle at the origin, where deep
networks with small weights wait long. Printed are the speed of the direction in which it leaves, beside the fastest
neuron's, the rank of each layer, and a forecast of the steps that SGD takes. The network has to be positively
homogeneous: linear maps and convolutions without biases, relu, pooling.
"""
MIRRORS = """\
Tell which neurons of a trained network SGD will merge at given settings: of the pairs that are closest in each group
of neurons, by how much a step changes the logarithm of their distance (below 0: they merge). And which it takes to 0:
of neurons whose sign is free (odd activations; dimensions of attention heads) the smallest. Adam does not follow this.
"""
COLLAPSE = """\
Tell how far a trained classifier is from neural collapse, layer by layer: NC1, scatter within classes over that between
them, in the row space of its last linear map and beyond; NC2, distance of class means from a simplex; NC3, distance
of features from their class's row. With --penalty also what any network of this loss can be like at most.
"""
TRACE = """\
Print the groups of neurons of a network that can be renumbered without changing its function, the weights that each
group acts on, the signs, scales and other linear maps of its neurons that change nothing either, and the operations
that were not understood. Of the data two samples are used, with --complete up to 512, and no targets.
"""
MODEL = (
    "a function without arguments that returns the network as an nn.Module (with any weights, where files give "
    "them); modules in the current folder are found"
)
DATA = (
    ".npz, .safetensors or .pt with x [n, ...] (real numbers, or integer tokens), or the module's inputs by name, and, "
    "for scores, targets y (labels; of every token or pixel too, -100 is ignored; or real numbers); or MODULE:BATCHES, "
    "an iterable of batches, (x, y) or dictionaries, or a function that returns one"
)
EXAMPLES = {
    "align": """\
  symlab align A.safetensors B.safetensors \\
      --model my_package.networks:build --data validation.npz --out aligned
""",
    "merge": """\
  symlab merge A.safetensors B.safetensors C.safetensors \\
      --model my_package.networks:build --data validation.npz --out merged
""",
    "diagnose": """\
  symlab diagnose A.safetensors B.safetensors \\
      --model my_package.networks:build --data validation.npz --out diagnosed
""",
    "escape": """\
  symlab escape my_package.networks:build --data training.npz --lr 10 --power 4
""",
    "mirrors": """\
  symlab mirrors my_package.networks:build --checkpoint A.safetensors --data train.npz \\
      --lr 0.1 --weight-decay 0.001 --momentum 0.9 --batch 128 --out mirrors
""",
    "collapse": """\
  symlab collapse my_package.networks:build --checkpoint A.safetensors --data train.npz --test test.npz \\
      --penalty 0.0005 --out collapsed
""",
}
RESULTS = {
    "align": {
        "permuted.safetensors": "B, renumbered: the same function, with B's names and types",
        "permuted/": "instead, of shards: a folder of them",
        "permutations.safetensors": "for each group of neurons, the neuron of B at each position",
        "signs.safetensors": "with --group signed: what those neurons were multiplied by",
        "reference.safetensors": "with --group orthogonal or full: A as it is to be averaged with B, the same function",
        "transforms.safetensors": "with those: the matrices that map B's neurons, when they stand in A's order",
        "learned.csv": "with --learn: the scores of its steps",
        "spec.json": "the groups, the axes they act on, and what was not understood",
        "matching.csv": "how well neurons match: optimal, identity, and random permutations",
        "curve.csv, barriers.csv": "loss and accuracy on the line from A to B, and to the renumbered B",
        "curve.png, curve.pdf": "the same as a figure",
        "run.json": "the options and versions of this run",
    },
    "merge": {
        "merged.safetensors": "the average in the order of the first network (or the base), with its names and types",
        "merged/": "instead, with --until: a file a network, the same up to that layer",
        "permutations.safetensors": "for each group of neurons and network, the neuron that stands at each position",
        "spec.json": "the groups, the axes they act on, and what was not understood",
        "scores.csv": "loss and accuracy of every network, both averages, the ensemble and a constant",
        "run.json": "the options and versions of this run",
    },
    "diagnose": {
        "neurons.csv": "a row a neuron of A: its partner in B, correlations, its cheapest swap",
        "neurons.png, neurons.pdf": "correlation with its own number in B against that with its partner",
        "run.json": "the options and versions of this run",
    },
    "mirrors": {
        "pairs.csv": "a row a pair: distance, curvature across its mirror, exponent, whether it merges, "
        "steps to half or twice",
        "zeros.csv": "a row a neuron whose sign is free: size, curvature, exponent, whether it vanishes, "
        "steps to half or twice",
        "run.json": "the options and versions of this run",
    },
    "collapse": {
        "layers.csv": "a row a layer and part of the data: NC1, in the row space and beyond, NC2, NC3",
        "parts.csv": "a row a part: samples, loss, accuracy, the metrics of features and readout",
        "collapse.png, collapse.pdf": "the layers as a figure",
        "run.json": "the options and versions of this run",
    },
}
"""What a command writes into its folder, and what that holds; of some only where an option asks for them."""


def results_of(command: str) -> list[str]:
    """The files and folders that a command may write, by name."""
    return [name.rstrip("/") for names in RESULTS[command] for name in names.split(", ")]


def epilog(command: str) -> str:
    """An example of the command, and what it writes."""
    if command not in EXAMPLES:
        return ""
    text = f"example:\n{EXAMPLES[command]}"
    if command in RESULTS:
        width = max(map(len, RESULTS[command]))
        held = "".join(f"  {names:{width}}  {what}\n" for names, what in RESULTS[command].items())
        folder = EXAMPLES[command].split("--out ")[1].strip()
        text += f"\nwrites to the folder {folder}/:\n{held}\n"
        text += "Mistakes are told in a sentence, with exit status 1, in options with 2; nothing is written then.\n"
    return text
