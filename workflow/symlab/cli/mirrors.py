"""``symlab mirrors``: ``symlab.mirrors`` from files to a table."""

from argparse import Namespace

from symlab.artifacts import write_table
from symlab.cli.files import check_folder, computing, written
from symlab.cli.texts import results_of
from symlab.own.mirrors import SGD
from symlab.own.mirrors import mirrors as mirrors_of

RESULTS = results_of("mirrors")


def mirrors(options: Namespace) -> None:
    """Tell which neurons merge as ``symlab mirrors --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    check_folder(options, RESULTS)
    training = SGD(options.lr, options.weight_decay, options.momentum, options.batch)
    numbers = {"pairs": options.pairs, "steps": options.steps}
    found = mirrors_of(
        options.model, options.checkpoint, options.data, training=training, **numbers, **computing(options)
    )
    with written(options, RESULTS, str(found)) as staged:
        write_table(staged / "pairs.csv", found.pairs)
        write_table(staged / "zeros.csv", found.zeros)
