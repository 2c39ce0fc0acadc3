"""The ``symlab`` command, for people who bring their own models. The workflow is run with snakemake instead."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from symlab import __version__
from symlab.errors import UserError

DESCRIPTION = """\
symlab measures what the parameter symmetries of neural networks do.

This program is for people who bring their own trained networks. The studies of the papers
are a Snakemake workflow, which is run with snakemake instead: see README.md.
"""
ALIGN = """\
Renumber the neurons of network B so that they play the roles of network A's, and measure what
lies on the straight line between the two: two trainings of one architecture, from two seeds,
usually differ by such a renumbering more than by anything else.

A and B are files of module.state_dict(), .safetensors or .pt, .bin, .ckpt (read without running any code in
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
MERGED = """\
example:
  symlab merge A.safetensors B.safetensors C.safetensors \\
      --model my_package.networks:build --data validation.npz --out merged

writes to the folder merged/:
  merged.safetensors        the average in the order of the first network, with its names and types
  permutations.safetensors  for each group of neurons and network, the neuron that stands at each position
  spec.json                 the groups, the axes they act on, and what was not understood
  scores.csv                loss and accuracy of every network, both averages, the ensemble and a constant
  run.json                  the options and versions of this run

Mistakes are told in a sentence, with exit status 1; nothing is written then.
"""
DIAGNOSE = """\
Tell neuron by neuron whether two trainings of one architecture have it in the same place: its partner in the best
matching, how well both correlate, and what exchanging it with another would cost in weight norm.

Weights that are equal in both networks count as fixed: where all are trained, every swap is free and its cost 0.
"""
DIAGNOSED = """\
example:
  symlab diagnose A.safetensors B.safetensors \\
      --model my_package.networks:build --data validation.npz --out diagnosed

writes to the folder diagnosed/:
  neurons.csv               a row a neuron of A: its partner in B, correlations, its cheapest swap
  neurons.png, neurons.pdf  correlation with its own number in B against that with its partner
  run.json                  the options and versions of this run

Mistakes are told in a sentence, with exit status 1; nothing is written then.
"""
ESCAPE = """\
Follow a network from its initial weights along gradient flow until it has left the saddle at the origin, where deep
networks with small weights wait long. Printed are the speed of the direction in which it leaves, beside the fastest
neuron's, the rank of each layer, and a forecast of the steps that SGD takes. The network has to be positively
homogeneous: linear maps and convolutions without biases, relu, pooling.
"""
ESCAPES = """\
example:
  symlab escape my_package.networks:build --data training.npz --lr 10 --power 4
"""
MIRRORS = """\
Tell which neurons of a trained network SGD will merge at given settings: of the pairs that are closest in each group
of neurons, by how much a step changes the logarithm of their distance (below 0: they merge). Adam does not follow this.
"""
MIRRORED = """\
example:
  symlab mirrors my_package.networks:build --checkpoint A.safetensors --data train.npz \\
      --lr 0.1 --weight-decay 0.001 --momentum 0.9 --batch 128 --out mirrors

writes to the folder mirrors/:
  pairs.csv  a row a pair: distance, curvature across their mirror, exponent, whether they merge, steps to half
  run.json   the options and versions of this run
"""
TRACE = """\
Print the groups of neurons of a network that can be renumbered without changing its function, the weights that each
group acts on, and the operations that were not understood.
"""
EXAMPLE = """\
example:
  symlab align A.safetensors B.safetensors \\
      --model my_package.networks:build --data validation.npz --out aligned

writes to the folder aligned/:
  permuted.safetensors      B, renumbered: the same function, with B's names and types (of shards a folder, permuted/)
  permutations.safetensors  for each group of neurons, the neuron of B at each position
  signs.safetensors         with --group signed: what those neurons were multiplied by
  spec.json                 the groups, the axes they act on, and what was not understood
  matching.csv              how well neurons match: optimal, identity, and random permutations
  curve.csv, barriers.csv   loss and accuracy on the line from A to B, and to the renumbered B
  curve.png, curve.pdf      the same as a figure
  run.json                  the options and versions of this run

Mistakes are told in a sentence, with exit status 1; nothing is written then.
"""
MODEL = (
    "a function without arguments that returns the network as an nn.Module (its weights do not matter); "
    "modules in the current folder are found"
)
DATA = (
    ".npz, .safetensors or .pt with x [n, ...] (real numbers, or integer tokens), or the module's inputs by name, and, "
    "for scores, targets y (labels; of every token or pixel too, -100 is ignored; or real numbers); or MODULE:BATCHES, "
    "an iterable of batches, (x, y) or dictionaries, or a function that returns one"
)


@dataclass(frozen=True)
class Command:
    """A command of ``symlab``.

    Attributes:
        help: a line for the list of commands.
        description, epilog: what stands before and after its options.
        add: adds its options.
        run: ``module:function`` that takes them; imported when the command is run.
    """

    help: str
    description: str
    add: Callable[[argparse.ArgumentParser], None]
    run: str
    epilog: str = ""


class _Version(argparse.Action):
    """The version, and which library multiplies matrices on this processor, which torch is needed to tell."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any, **options: Any) -> None:
        from symlab.products import products_by

        print(f"symlab {__version__}\nfloat32 products on the CPU: {products_by()}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The command line; torch is not imported for it, so that help comes at once."""
    main = argparse.ArgumentParser(
        prog="symlab",
        description=DESCRIPTION,
        epilog=EXAMPLE.partition("\nwrites")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "show the version and what multiplies, and exit"
    main.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=text)
    commands = main.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        command.add(
            commands.add_parser(
                name,
                help=command.help,
                description=command.description,
                epilog=command.epilog,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return main


def _add_align(align: argparse.ArgumentParser) -> None:
    align.add_argument("A", metavar="A.safetensors", help="file or folder: weights of the network that stays as it is")
    align.add_argument(
        "B", metavar="B.safetensors", help="file or folder: weights of the network whose neurons are renumbered"
    )
    _add_needed(align)
    _add_matching(align)
    path = align.add_argument_group("the line from A to B")
    path.add_argument(
        "--lambdas", type=int, default=25, metavar="N", help="points on the line, an odd number (default: %(default)s)"
    )
    path.add_argument(
        "--repair",
        action="store_true",
        help="rescale activations along both lines, aligned and not (REPAIR, Jordan et al. 2023)",
    )
    add_computing(align)
    _add_overwrite(align)


def _add_diagnose(diagnose: argparse.ArgumentParser) -> None:
    diagnose.add_argument("A", metavar="A.safetensors", help="file or folder: weights of the network that is told of")
    diagnose.add_argument("B", metavar="B.safetensors", help="file or folder: weights of the other training")
    _add_needed(diagnose)
    add_computing(diagnose)
    _add_overwrite(diagnose)


def _add_merge(merge: argparse.ArgumentParser) -> None:
    merge.add_argument(
        "networks", nargs="+", metavar="FILE", help="files or folders: two or more networks; the first gives the order"
    )
    _add_needed(merge)
    _add_matching(merge)
    average = merge.add_argument_group("the average")
    average.add_argument(
        "--weights", metavar="W,W,...", help="of the networks in the average, negative ones too (default: equal)"
    )
    average.add_argument(
        "--repair",
        action="store_true",
        help="rescale the channels of layers with a bias, in both averages (REPAIR, Jordan et al. 2023)",
    )
    add_computing(merge)
    _add_overwrite(merge)


def add_model(command: argparse.ArgumentParser) -> None:
    """The options of a command on one network: MODEL, its weights, the data, and how to compute."""
    command.add_argument("model", metavar="MODULE:FUNCTION", help=f"{MODEL}; or transformers:CLASS with --folder")
    command.add_argument("--data", required=True, metavar="FILE", help=DATA)
    command.add_argument("--checkpoint", metavar="FILE", help="file or folder of its weights (default: as it is built)")
    command.add_argument("--folder", metavar="FOLDER", help="builds transformers:CLASS from the config.json in it")
    add_computing(command)


def _add_escape(escape: argparse.ArgumentParser) -> None:
    add_model(escape)
    forecast = escape.add_argument_group("the forecast")
    forecast.add_argument("--lr", type=float, default=0.1, metavar="RATE", help="of SGD (default: %(default)s)")
    forecast.add_argument(
        "--power", type=float, default=0.0, metavar="P", help="the rate is lr / |theta|^P (default: %(default)s)"
    )
    forecast.add_argument("--momentum", type=float, default=0.0, metavar="M", help="of SGD (default: %(default)s)")
    forecast.add_argument(
        "--drop",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="of the loss at the origin, at which the network has left (default: %(default)s)",
    )
    forecast.add_argument(
        "--gradients", type=int, default=5000, metavar="N", help="compute at most N (default: %(default)s)"
    )


def _add_mirrors(mirrors: argparse.ArgumentParser) -> None:
    add_model(mirrors)
    mirrors.add_argument("--out", required=True, metavar="FOLDER", help="where the results go")
    training = mirrors.add_argument_group("training from here on")
    training.add_argument("--lr", type=float, required=True, metavar="X", help="rate of SGD")
    training.add_argument("--weight-decay", type=float, default=0.0, metavar="X", help="as torch.optim.SGD has it")
    training.add_argument("--momentum", type=float, default=0.0, metavar="X", help="of SGD (default: none)")
    training.add_argument("--batch", type=int, default=64, metavar="N", help="samples of a step (default: %(default)s)")
    mirrors.add_argument(
        "--pairs", type=int, default=10, metavar="N", help="the closest pairs of each group (default: %(default)s)"
    )
    mirrors.add_argument(
        "--steps", type=int, default=300, metavar="N", help="batches of an exponent (default: %(default)s)"
    )
    _add_overwrite(mirrors)


def _add_needed(command: argparse.ArgumentParser) -> None:
    needed = command.add_argument_group("needed")
    needed.add_argument(
        "--model",
        required=True,
        metavar="MODULE:FUNCTION",
        help=f"{MODEL}; or transformers:CLASS, built from the config.json beside the first weights",
    )
    needed.add_argument("--data", required=True, metavar="FILE", help=DATA)
    needed.add_argument("--out", required=True, metavar="FOLDER", help="where the results go")


def _add_matching(command: argparse.ArgumentParser) -> None:
    matching = command.add_argument_group("matching")
    matching.add_argument(
        "--method",
        choices=("activation", "weight"),
        default="activation",
        help="compare neurons by their activations on x, or by their weights (default: %(default)s)",
    )
    matching.add_argument(
        "--group",
        choices=("permutation", "signed"),
        default="permutation",
        help="signed: also the signs that the network leaves free: behind tanh and sin, in gated layers, in streams "
        "normalised by their mean square; by activations (default: %(default)s)",
    )
    matching.add_argument(
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="starts of --method weight, the best is kept: as the networks are, anchored at the inputs, at the "
        "outputs, then random (default: %(default)s); activations need one",
    )


def add_computing(command: argparse.ArgumentParser) -> None:
    """The options of every command that computes networks: what scores them, on which samples, where."""
    computing = command.add_argument_group("computing")
    computing.add_argument(
        "--task",
        choices=("classification", "regression"),
        help="cross-entropy of labels, or squared error of real targets (default: what the type of y says)",
    )
    computing.add_argument(
        "--metric",
        metavar="MODULE:FUNCTION",
        help="instead, your own loss: outputs and targets of a batch to a number for each sample, or one for all",
    )
    computing.add_argument("--samples", type=int, metavar="N", help="use N random samples of the data (default: all)")
    computing.add_argument("--batch-size", type=int, metavar="N", help="samples at a time (default: by their size)")
    computing.add_argument("--seed", type=int, default=0, metavar="N", help="of all random choices (default: 0)")
    computing.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if torch sees one (default)"
    )


def _add_overwrite(command: argparse.ArgumentParser) -> None:
    command.add_argument("--overwrite", action="store_true", help="replace results that lie in the folder already")


COMMANDS = {
    "align": Command(
        "align two trained networks of your own and draw the barrier between them",
        ALIGN,
        _add_align,
        "symlab.cli.align:align",
        EXAMPLE,
    ),
    "merge": Command(
        "average several trained networks of your own in one order of their neurons",
        MERGE,
        _add_merge,
        "symlab.cli.merge:merge",
        MERGED,
    ),
    "diagnose": Command(
        "tell which neurons two trained networks of your own have in the same place",
        DIAGNOSE,
        _add_diagnose,
        "symlab.cli.diagnose:diagnose",
        DIAGNOSED,
    ),
    "escape": Command(
        "forecast when a network of your own leaves the saddle at the origin, and how",
        ESCAPE,
        _add_escape,
        "symlab.cli.escape:escape",
        ESCAPES,
    ),
    "mirrors": Command(
        "tell which neurons of a network of your own SGD will merge at given settings",
        MIRRORS,
        _add_mirrors,
        "symlab.cli.mirrors:mirrors",
        MIRRORED,
    ),
    "trace": Command(
        "print the permutation symmetries of a network of your own", TRACE, add_model, "symlab.cli.trace:trace"
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake ends it with its sentence on stderr and exit status 1."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            raise UserError(f"there is no command {arguments[0]!r}; {_nearest(arguments[0])}")
        options = parser().parse_args(arguments)
        if options.command is None:
            parser().print_help()
            return
        module, _, function = COMMANDS[options.command].run.partition(":")
        getattr(import_module(module), function)(options)
    except UserError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _nearest(word: str) -> str:
    nearest = get_close_matches(word, COMMANDS, 1)
    return f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(COMMANDS)} (symlab --help)."
