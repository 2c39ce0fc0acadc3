"""``symlab escape``: ``symlab.escape``, printed with a forecast for a rule of steps."""

from argparse import Namespace

from symlab.cli.files import computing
from symlab.own.escape import escape as escape_of
from symlab.own.escape import refuse_rate
from symlab.words import counted


def escape(options: Namespace) -> None:
    """Print how and when the network that ``options.model`` builds leaves the origin.

    Raises:
        UserError: there is no such network or file, or it is not positively homogeneous.
    """
    refuse_rate(options.lr, options.momentum)
    numbers = {"drop": options.drop, "gradients": options.gradients}
    found = escape_of(options.model, options.data, weights=options.checkpoint, **numbers, **computing(options))
    print(found)
    rule = f"a rate of {options.lr:g}" + (f" / |theta|^{options.power:g}" if options.power else "")
    rule += f" and momentum {options.momentum:g}" if options.momentum else ""
    steps = found.steps(options.lr, options.power, options.momentum)
    print(f"SGD at {rule} leaves after about {counted(round(steps), 'steps')}.")
    for sentence in found.remarks:
        print(sentence)
