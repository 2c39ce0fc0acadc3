"""``symlab escape``: ``symlab.escape``, printed with a forecast for a rule of steps."""

from __future__ import annotations

from argparse import Namespace

from symlab.cli.files import models_of
from symlab.own.escape import escape_models


def escape(options: Namespace) -> None:
    """Print how and when the network that ``options.model`` builds leaves the origin.

    Raises:
        UserError: there is no such network or file, or it is not positively homogeneous.
    """
    models = models_of(options)
    found = escape_models(models, options.drop, gradients=options.gradients)
    print(found)
    rule = f"a rate of {options.lr:g}" + (f" / |theta|^{options.power:g}" if options.power else "")
    rule += f" and momentum {options.momentum:g}" if options.momentum else ""
    steps = found.steps(options.lr, options.power, options.momentum)
    print(f"SGD at {rule} leaves after about {steps:,.0f} steps.")
    for sentence in models.remarks:
        print(sentence)
