"""``symlab mirrors``: ``symlab.mirrors`` from files to a table."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from symlab.artifacts import write_table, write_text
from symlab.cli.files import all_or_nothing, check_folder, computing, run_as_json
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
    folder = Path(options.out)
    with all_or_nothing(folder, RESULTS) as staged:
        write_table(staged / "pairs.csv", found.pairs)
        write_table(staged / "zeros.csv", found.zeros)
        write_text(staged / "run.json", run_as_json(options))
    print(found)
    print(f"\nWritten to {folder}: {', '.join(RESULTS)}")
