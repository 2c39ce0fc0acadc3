"""The ``symlab`` command, for people who bring their own models. The workflow is run with snakemake instead."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from symlab import __version__
from symlab.cli import texts
from symlab.errors import UserError


@dataclass(frozen=True)
class Command:
    """A command of ``symlab``.

    Attributes:
        help: a line for the list of commands.
        description: what stands before its options.
        add: adds its options; the function of its name in the module of its name takes them.
    """

    help: str
    description: str
    add: Callable[[argparse.ArgumentParser], None]


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
        description=texts.DESCRIPTION,
        epilog=f"example:\n{texts.EXAMPLES['align']}",
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
                epilog=texts.epilog(name),
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
    _add_test(align)
    _add_matching(align)
    learning = align.add_argument_group("learning")
    learning.add_argument(
        "--learn",
        type=int,
        nargs="?",
        const=300,
        default=0,
        metavar="STEPS",
        help="with --group orthogonal or full: descent over the maps, from the closed form, down the loss of the "
        "midpoint on y (default: none; without a number 300 steps); the same with an untrained network in B's place "
        "is printed beside it",
    )
    learning.add_argument(
        "--untrained", metavar="FILE", help="file or folder: weights of that network (default: as --model builds it)"
    )
    path = align.add_argument_group("the line from A to B")
    _add_number(path, "--lambdas", 25, "N", "points on the line, an odd number")
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
        "networks",
        nargs="+",
        metavar="FILE",
        help="files or folders: two or more networks (one with --base); the first, or the base, gives the order",
    )
    _add_needed(merge)
    _add_test(merge)
    _add_matching(merge)
    average = merge.add_argument_group("the average")
    average.add_argument(
        "--average",
        choices=("mean", "slerp", "ties", "least-squares"),
        default="mean",
        help="mean of the weights; slerp: on the arc between two networks; ties: the largest entries of what they "
        "learned since --base, where signs agree; least-squares: layers fitted to what the networks' layers compute "
        "(default: %(default)s)",
    )
    average.add_argument(
        "--weights", metavar="W,W,...", help="of the networks in the average, negative ones too (default: equal)"
    )
    average.add_argument(
        "--layer",
        action="append",
        default=[],
        metavar="NAME=W,W,...",
        help="in their place, for a layer or parameter and all below it; may be given several times",
    )
    average.add_argument(
        "--base",
        metavar="FILE",
        help="weights that all were trained from: what they have learned since is averaged, and added to it",
    )
    _add_number(average, "--scale", 1.0, "X", "of what is added to the base")
    _add_number(average, "--density", 0.2, "SHARE", "of the entries that ties keeps of each")
    average.add_argument(
        "--until",
        metavar="LAYER",
        help="average only up to this layer; beyond, each network keeps its own: several heads",
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
    command.add_argument("model", metavar="MODULE:FUNCTION", help=f"{texts.MODEL}; or transformers:CLASS with --folder")
    command.add_argument("--data", required=True, metavar="FILE", help=texts.DATA)
    command.add_argument("--checkpoint", metavar="FILE", help="file or folder of its weights (default: as it is built)")
    command.add_argument("--folder", metavar="FOLDER", help="builds transformers:CLASS from the config.json in it")
    add_computing(command)


def _add_collapse(collapse: argparse.ArgumentParser) -> None:
    add_model(collapse)
    collapse.add_argument("--out", required=True, metavar="FOLDER", help="where the results go")
    collapse.add_argument("--test", metavar="FILE", help="data as --data that the network was not trained on")
    measured = collapse.add_argument_group("what is measured")
    measured.add_argument(
        "--readout",
        metavar="NAME",
        help="linear map that reads the features (default: the last one whose outputs are the network's)",
    )
    measured.add_argument(
        "--layers",
        metavar="NAME,NAME,...",
        help="modules whose outputs are measured, or patterns like blocks.* (default: the network's blocks)",
    )
    measured.add_argument(
        "--token",
        type=int,
        metavar="N",
        help="of layers that give [n, tokens, d] take this token, -1 for the last (default: all, as one vector)",
    )
    measured.add_argument(
        "--penalty",
        type=float,
        metavar="X",
        help="weight decay of the readout in training, as torch.optim.SGD has it, for the certificate",
    )
    _add_overwrite(collapse)


def _add_trace(trace: argparse.ArgumentParser) -> None:
    add_model(trace)
    trace.add_argument(
        "--complete",
        action="store_true",
        help="also measure, for groups of up to 64 neurons, whether other linear maps are free than those found: the "
        "null space of the outputs' derivative (takes minutes for 64 neurons)",
    )


def _add_escape(escape: argparse.ArgumentParser) -> None:
    add_model(escape)
    forecast = escape.add_argument_group("the forecast")
    _add_number(forecast, "--lr", 0.1, "RATE", "of SGD")
    _add_number(forecast, "--power", 0.0, "P", "the rate is lr / |theta|^P")
    _add_number(forecast, "--momentum", 0.0, "M", "of SGD")
    _add_number(forecast, "--drop", 0.01, "SHARE", "by which the loss has dropped when the network has left")
    _add_number(forecast, "--gradients", 5000, "N", "computed at most")


def _add_mirrors(mirrors: argparse.ArgumentParser) -> None:
    add_model(mirrors)
    mirrors.add_argument("--out", required=True, metavar="FOLDER", help="where the results go")
    training = mirrors.add_argument_group("training from here on")
    training.add_argument("--lr", type=float, required=True, metavar="X", help="rate of SGD")
    training.add_argument("--weight-decay", type=float, default=0.0, metavar="X", help="as torch.optim.SGD has it")
    training.add_argument("--momentum", type=float, default=0.0, metavar="X", help="of SGD (default: none)")
    _add_number(training, "--batch", 64, "N", "samples of a step")
    _add_number(mirrors, "--pairs", 3, "N", "closest pairs of each group, and smallest neurons of each free sign")
    _add_number(mirrors, "--steps", 300, "N", "batches that an exponent is averaged over at most")
    _add_overwrite(mirrors)


def _add_needed(command: argparse.ArgumentParser) -> None:
    needed = command.add_argument_group("needed")
    needed.add_argument(
        "--model",
        required=True,
        metavar="MODULE:FUNCTION",
        help=f"{texts.MODEL}; or transformers:CLASS, built from the config.json beside the first weights",
    )
    needed.add_argument("--data", required=True, metavar="FILE", help=texts.DATA)
    needed.add_argument("--out", required=True, metavar="FOLDER", help="where the results go")


def _add_test(command: argparse.ArgumentParser) -> None:
    text = (
        "data as --data, with y, that scores and curves are measured on (default: those that networks are matched on)"
    )
    command.add_argument("--test", metavar="FILE", help=text)


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
        choices=("permutation", "signed", "orthogonal", "full"),
        default="permutation",
        help="signed: also the signs that the network leaves free: behind tanh and sin, in gated layers, in streams "
        "normalised by their mean square; by activations. orthogonal: also rotations of streams and within heads. "
        "full: also scales and invertible maps, all that symlab trace names (default: %(default)s)",
    )
    matching.add_argument(
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="starts of --method weight, the best is kept: as the networks are, up to three that are anchored, then "
        "random ones (default: %(default)s); activations need one",
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


def _add_number(
    group: argparse.ArgumentParser | argparse._ArgumentGroup, name: str, default: float, metavar: str, text: str
) -> None:
    text = f"{text} (default: %(default)s)"
    group.add_argument(name, type=type(default), default=default, metavar=metavar, help=text)


def _add_overwrite(command: argparse.ArgumentParser) -> None:
    command.add_argument("--overwrite", action="store_true", help="replace results that lie in the folder already")


COMMANDS = {
    "align": Command(
        "align two trained networks of your own and draw the barrier between them", texts.ALIGN, _add_align
    ),
    "merge": Command(
        "average several trained networks of your own in one order of their neurons", texts.MERGE, _add_merge
    ),
    "diagnose": Command(
        "tell which neurons two trained networks of your own have in the same place", texts.DIAGNOSE, _add_diagnose
    ),
    "escape": Command(
        "forecast when a network of your own leaves the saddle at the origin, and how", texts.ESCAPE, _add_escape
    ),
    "mirrors": Command(
        "tell which neurons of a network of your own SGD will merge at given settings", texts.MIRRORS, _add_mirrors
    ),
    "collapse": Command(
        "tell how far a classifier of your own is from neural collapse, layer by layer", texts.COLLAPSE, _add_collapse
    ),
    "trace": Command(
        "print the symmetries of a network of your own, permutations, signs and linear maps", texts.TRACE, _add_trace
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
        getattr(import_module(f"symlab.cli.{options.command}"), options.command)(options)
    except UserError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _nearest(word: str) -> str:
    nearest = get_close_matches(word, COMMANDS, 1)
    return f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(COMMANDS)} (symlab --help)."
