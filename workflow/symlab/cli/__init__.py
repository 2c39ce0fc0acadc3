"""The ``symlab`` command, for people who bring their own models. The workflow is run with snakemake instead."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
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

A and B are safetensors files of module.state_dict(), or folders that hold one (or shards):

    from safetensors.torch import save_file
    save_file(module.state_dict(), "A.safetensors")

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
  scores.csv                loss and accuracy of every network, both averages and the ensemble
  run.json                  the options and versions of this run

Mistakes are told in a sentence, with exit status 1; nothing is written then.
"""
MODEL = (
    "a function without arguments that returns the network as an nn.Module (its weights do not matter); "
    "modules in the current folder are found"
)
DATA = (
    ".npz or .safetensors with x [n, ...] (real numbers, or integer tokens) and, for the curve, y [n] (labels of "
    "tokens: [n, tokens], -100 is ignored); or MODULE:BATCHES, an iterable of batches (x, y) or a function "
    "that returns one"
)
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
  spec.json                 the groups, the axes they act on, and what was not understood
  matching.csv              how well neurons match: optimal, identity, and random permutations
  curve.csv, barriers.csv   loss and accuracy on the line from A to B, and to the renumbered B
  curve.png, curve.pdf      the same as a figure
  run.json                  the options and versions of this run

Mistakes are told in a sentence, with exit status 1; nothing is written then.
"""


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
    told = "show the version and what multiplies, and exit"
    main.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=told)
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_align(
        commands.add_parser(
            "align",
            help="align two trained networks of your own and draw the barrier between them",
            description=ALIGN,
            epilog=EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    _add_merge(
        commands.add_parser(
            "merge",
            help="average several trained networks of your own in one order of their neurons",
            description=MERGE,
            epilog=MERGED,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    trace = commands.add_parser(
        "trace", help="print the permutation symmetries of a network of your own", description=TRACE
    )
    trace.add_argument("model", metavar="MODULE:FUNCTION", help=MODEL)
    trace.add_argument(
        "--data", required=True, metavar="FILE", help=".npz or .safetensors with x [n, ...], or MODULE:BATCHES"
    )
    trace.add_argument("--folder", metavar="FOLDER", help="builds transformers:CLASS from the config.json in it")
    return main


def _add_align(align: argparse.ArgumentParser) -> None:
    align.add_argument("A", metavar="A.safetensors", help="file or folder: weights of the network that stays as it is")
    align.add_argument(
        "B", metavar="B.safetensors", help="file or folder: weights of the network whose neurons are renumbered"
    )
    _add_needed(align)
    _add_matching(align)
    path = align.add_argument_group("the line from A to B")
    _add_task(path)
    path.add_argument(
        "--lambdas", type=int, default=25, metavar="N", help="points on the line, an odd number (default: %(default)s)"
    )
    path.add_argument(
        "--repair",
        action="store_true",
        help="rescale activations along both lines, aligned and not (REPAIR, Jordan et al. 2023)",
    )
    _add_computing(align)


def _add_merge(merge: argparse.ArgumentParser) -> None:
    merge.add_argument(
        "networks", nargs="+", metavar="FILE", help="files or folders: two or more networks; the first gives the order"
    )
    _add_needed(merge)
    _add_matching(merge)
    average = merge.add_argument_group("the average")
    average.add_argument("--weights", metavar="W,W,...", help="of the networks in the average (default: equal)")
    _add_task(average)
    average.add_argument(
        "--repair",
        action="store_true",
        help="rescale the channels of layers with a bias, in both averages (REPAIR, Jordan et al. 2023)",
    )
    _add_computing(merge)


def _add_needed(command: argparse.ArgumentParser) -> None:
    needed = command.add_argument_group("needed")
    needed.add_argument(
        "--model",
        required=True,
        metavar="MODULE:FUNCTION",
        help=f"{MODEL}; or transformers:CLASS, built from the config.json beside the first weights",
    )
    needed.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help=DATA,
    )
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
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="starts of --method weight, the best is kept: as the networks are, anchored at the inputs, at the "
        "outputs, then random (default: %(default)s); activations need one",
    )


def _add_task(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--task",
        choices=("classification", "regression"),
        default="classification",
        help="cross-entropy of class labels, or squared error of real targets (default: %(default)s)",
    )


def _add_computing(command: argparse.ArgumentParser) -> None:
    computing = command.add_argument_group("computing")
    computing.add_argument("--samples", type=int, metavar="N", help="use N random samples of the data (default: all)")
    computing.add_argument("--batch-size", type=int, metavar="N", help="samples at a time (default: by their size)")
    computing.add_argument("--seed", type=int, default=0, metavar="N", help="of all random choices (default: 0)")
    computing.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if torch sees one (default)"
    )
    computing.add_argument("--overwrite", action="store_true", help="replace results that lie in the folder already")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake ends it with its sentence on stderr and exit status 1."""
    try:
        chosen = vars(parser().parse_args(arguments))
        command = chosen.pop("command")
        if command == "align":
            from symlab.cli.align import Options, align

            align(Options(**chosen))
        elif command == "merge":
            from symlab.cli.merge import Options as MergeOptions
            from symlab.cli.merge import merge

            merge(MergeOptions(**chosen))
        else:
            from symlab.cli.trace import print_symmetries

            print_symmetries(**chosen)
    except UserError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
