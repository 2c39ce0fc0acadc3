"""``symlab trace``: the symmetries of a network, printed."""

from argparse import Namespace

from symlab.alignment.signs import signs_of
from symlab.cli.files import computing
from symlab.own.models import load_models, trace_quietly
from symlab.own.report import coverage, of_actions
from symlab.symmetries.actions import actions_of
from symlab.symmetries.completeness import dimensions_of
from symlab.symmetries.propagation import listed
from symlab.symmetries.symmetry_spec import groups_of, shape
from symlab.words import counted

# Samples whose outputs' derivatives tell whether all maps were found.
COMPLETE_ON = 512


def trace(options: Namespace) -> None:
    """Print the groups of the network that ``options.model`` builds, traced at the inputs of the data.

    Raises:
        UserError: there is no such network or file, or the network cannot be traced.
    """
    weights = {options.checkpoint: options.checkpoint} if options.checkpoint else {}
    models = load_models(options.model, weights, options.data, **computing(options))
    traced = trace_quietly(models.module, models.inputs()[:2])
    spec = traced.spec
    like = models.network.by_all_names(models.states[0])
    flips = signs_of(models.module, traced, models.inputs()[:2], like)
    actions = actions_of(models.module, traced, models.inputs()[:2], like)
    many = models.inputs()[:COMPLETE_ON]
    told = dimensions_of(models.module, traced, many, like, actions) if options.complete else {}
    print(f"{models.name}: {counted(len(spec.free), 'groups')} of neurons")
    for group in spec.groups:
        acted = [name for name, axes in spec.axes.items() if any(group in groups_of(axis) for axis in axes)]
        stays = ", in place" if spec.groups[group].fixed else ""
        print(f"  {group} ({' x '.join(map(str, shape(group, spec.groups)))}{stays}): {', '.join(acted)}")
        for flip in flips:
            if flip.group == group:
                print(f"    signs free, each turned with: {', '.join(flip.turned)}")
        for line in of_actions([action for action in actions if action.group == group]):
            print(f"    {line}")
        if group in told:
            print(f"    dimensions of its maps: {told[group].claimed} claimed, {told[group].measured} measured")
        elif options.complete:
            print(
                "    dimensions of its maps: not known, for it is too large, or weights or outputs are too few to tell"
            )
    kept = traced.kept_by_constants()
    print(coverage(models.module, spec, kept))
    for sentence in models.remarks:
        print(sentence)
    for sentence in spec.unsupported:
        print(f"Not understood: {sentence}")
    if kept:
        kinds = "sinusoids, rotary embeddings, biases of heads, random numbers"
        print(f"Constants ({kinds}) alone keep in place, all or in part: {listed(kept)}.")
