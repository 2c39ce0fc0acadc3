"""What of a study does not go together: networks and data, measures and networks, figures and tables."""

from collections.abc import Mapping
from typing import Any

from symlab.data import Source
from symlab.errors import UserError
from symlab.networks import MLP
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, maker_of, switches
from symlab.pipeline.studies import Study, Variant
from symlab.schemes import WAsymmetric
from symlab.schemes.fixed_counts import fixed_counts

TRAINING = ("dataset", "network", "recipe", "seeds", "variants")
"""The keys that a study which trains networks needs."""


def check_variant(variant: Variant, where: str) -> None:
    """Refuse a network, scheme, recipe and data set that do not fit together.

    Raises:
        UserError: says which two.
    """
    network, source, scheme = variant.network, variant.source, variant.scheme
    of_data = f"data set {variant.dataset} (source {source.source})"
    if (misfit := network.misfit(source.image)) is not None:
        raise UserError(f"{where}: {of_data}: {misfit}.")
    if variant.recipe.augment is not None and source.image is None:
        raise UserError(
            f"{where}: recipe.augment flips and crops images, but the samples of {of_data} are none; set "
            "recipe.augment: null."
        )
    heads = getattr(scheme, "heads", None)
    if heads is not None and heads != getattr(network, "heads", None):
        raise UserError(
            f"{where}.scheme.heads = {heads}, but network {network.name} has "
            f"{getattr(network, 'heads', 'no attention')} heads; masks can follow the heads only if there are as many."
        )
    if isinstance(scheme, WAsymmetric) and source.inputs is not None and isinstance(network, MLP):
        sizes = {f"linears.{layer}": size for layer, size in enumerate([source.inputs, *network.widths])}
        try:
            fixed_counts(scheme, sizes)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None


def check_study(study: Study, sources: Mapping[str, Source], where: str) -> None:
    """Refuse measures that contradict each other or the variants, and figures without the tables that they need.

    Args:
        sources: settings of the data sets by name.

    Raises:
        UserError: names the key, or the figure and what it lacks.
    """
    for measure in study.measures():
        settings = study.settings[measure.key]
        for output, key in measure.needs_if.items():
            maker = maker_of(output)
            if getattr(settings, key) and maker.key not in study.settings:
                raise UserError(
                    f"{where}.{measure.key}.{key} needs {where}.{maker.key}; add {maker.key}: {{}}, or set "
                    f"{key}: false."
                )
        for variant in study.variants.values():
            _check_measure(measure.chain, measure.key, settings, variant, where)
    for experiment in study.experiments():
        if experiment.datasets and not study.datasets():
            raise UserError(f"{where}.{experiment.key} needs data; add {where}.dataset.")
        try:
            study.points(experiment)
        except UserError as error:
            raise UserError(f"{where}.{experiment.key} is not allowed: {error}") from None
        for grid in study.grids(experiment) if experiment.datasets else []:
            for dataset in dict.fromkeys(point["dataset"] for point in grid.points(study.datasets())):
                if (misfit := grid.misfit_with(sources[dataset])) is not None:
                    raise UserError(f"{where}.{experiment.key} on data set {dataset}: {misfit}.")
    given = set(study.tables())
    for figure in study.figures:
        if lacking := [table for table in FIGURES[figure].tables if table not in given]:
            keys = switches(lacking[0])
            missing = [f"{where}.{key}" for key in keys if key not in study.settings]
            if not study.variants and not EXPERIMENTS.keys() & {*keys}:
                missing.append(f"what networks are trained by ({', '.join(TRAINING)})")
            raise UserError(
                f"{where}.figures lists {figure}, which needs the table {lacking[0]}; add {' and '.join(missing)}, or "
                "leave the figure out."
            )


def _check_measure(chain: bool, key: str, settings: Any, variant: Variant, where: str) -> None:
    if chain and not variant.network.chain_of_linear_maps:
        raise UserError(
            f"{where}.{key} needs networks that are a chain of linear maps, which {variant.network.name} is "
            f"not; leave {key} out of this study."
        )
    if (misfit := settings.misfit(variant.network, variant.scheme)) is not None:
        raise UserError(f"{where}.{key}, variant {variant.name}: {misfit}.")
