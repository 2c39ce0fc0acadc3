"""Configs whose keys are right one by one but not together, or would only fail after hours: refused at the start.

Of sources, networks and schemes that were added to the registries nothing is known, so nothing is refused.
"""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path

from symlab.errors import UserError
from symlab.networks.fixed_counts import fixed_counts
from symlab.study import Config, Study

# Sources whose samples are images, which can be flipped and cropped, and those whose samples are none.
IMAGE_SOURCES = ("digits", "mnist", "cifar10", "cifar10_jpeg")
OTHER_SOURCES = ("gmm", "coherence", "mnist_coherence")
# Sources with classes.
CLASS_SOURCES = (*IMAGE_SOURCES, "gmm", "mnist_coherence")
# Inputs of the data sets of real images.
INPUTS = {"digits": 64, "mnist": 784, "mnist_coherence": 784, "cifar10": 3072, "cifar10_jpeg": 3072}
# Schemes whose law of D the theorems' bounds know (symlab.identifiability.bounds).
BOUNDED_SCHEMES = ("standard", "residual", "w_asymmetric", "syre", "sparse")
# Realization and swap costs are defined for a chain of linear maps: no convolutions, no attention.
NOT_IDENTIFIED = ("resnet20", "vgg", "vit")
WITHOUT_HEADS = ("mlp", "coherence_student", "resnet20", "vgg")
READ_IMAGES = ("resnet20", "vgg", "vit")
# Weight layers of the VGG networks, which pool five times.
VGG_DEPTHS = (8, 11, 13, 16)
VGG_SIDE = 32
# Palettes of seaborn that are known without importing it, which takes a second.
PALETTES = ("deep", "muted", "bright", "pastel", "dark", "colorblind")
# Snakemake plans a hundred thousand jobs in minutes, far more never.
MOST_JOBS = 100_000
_LIBRARY = Path(__file__).resolve().parents[1]


def check_results(results: str) -> None:
    """Refuse a results folder that would be no folder of its own.

    Raises:
        UserError: it names a file, a pattern, a URL, the project itself or the root of the file system.
    """
    where = f"Config: results = {results!r}"
    if not results.isprintable() or results != results.strip() or set("{}") & set(results):
        raise UserError(f"{where} holds braces, control characters or outer spaces; write a plain folder's name.")
    if "://" in results:
        raise UserError(f"{where} is a URL; name a folder of this machine.")
    if results.startswith("~"):
        raise UserError(f"{where} starts with ~, which Snakemake takes as a name; write the whole path.")
    folder = Path(os.path.abspath(results))
    if folder in (Path(folder.anchor), Path.cwd()):
        raise UserError(f"{where} is {folder} itself; name a folder for the results alone, like results.")
    if Path(os.path.realpath(folder)).is_relative_to(_LIBRARY):
        raise UserError(f"{where} lies within the workflow's code; name a folder outside {_LIBRARY}.")
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise UserError(f"{where} cannot be made, because {nearest} is a file; name a folder.")


def check_palette(name: str) -> None:
    """Refuse a palette that seaborn does not know, which would otherwise show when the first figure is drawn.

    Raises:
        UserError: there is no such palette.
    """
    if name in PALETTES:
        return
    import seaborn

    try:
        with warnings.catch_warnings(action="ignore"):
            colors = seaborn.color_palette(name, 10)
    except (ValueError, TypeError):
        colors = [(math.nan,)]
    if not all(0 <= value <= 1 for color in colors for value in color):
        raise UserError(f"Config: style.palette = {name!r} is not a seaborn palette; try colorblind.")


def check_dataset(spec: Config, where: str) -> None:
    """Refuse a data set whose keys do not fit together; the spec is complete.

    Raises:
        UserError: k or t do not fit into d, classes cannot be equally large, or there is no such split.
    """
    source = spec["source"]
    if source == "gmm" and spec["k"] > spec["d"]:
        raise UserError(f"Config: {where}.k = {spec['k']} exceeds {where}.d = {spec['d']}; choose a smaller k.")
    if source == "coherence" and spec["t"] > spec["d"] // 2:
        raise UserError(
            f"Config: {where}.t = {spec['t']} exceeds half of {where}.d = {spec['d']}; choose t of 1 to "
            f"{spec['d'] // 2}, or a larger d."
        )
    if source == "digits" and spec["split"] == "official":
        raise UserError(f"Config: {where}.split = official, but digits have no official test set; set split: random.")
    n_samples = spec.get("n_samples")
    if n_samples is not None and n_samples % 10:
        raise UserError(
            f"Config: {where}.n_samples = {n_samples} must be a multiple of 10: every class gets equally many."
        )


def check_variant(
    network: Config, scheme: Config, recipe: Config, dataset: str, dataset_spec: Config, where: str
) -> None:
    """Refuse a variant whose network, scheme, recipe and data set do not fit together; all are complete.

    Raises:
        UserError: names the two keys that contradict each other.
    """
    _check_network(network, dataset, dataset_spec, where)
    _check_counts(scheme, network, dataset_spec, where)
    _check_heads(scheme, network, where)
    _check_augment(recipe, dataset, dataset_spec, where)


def check_study(study: Study, where: str) -> None:
    """Refuse a study whose analyses contradict each other or its variants.

    Raises:
        UserError: names the key of the analysis.
    """
    n_jobs = len(study.variants) * -(-study.seeds // study.seeds_per_job)
    if n_jobs > MOST_JOBS:
        raise UserError(
            f"Config: {where} would train {len(study.variants)} variants in {n_jobs} jobs, more than {MOST_JOBS}; "
            f"raise {where}.seeds_per_job, or train less."
        )
    _check_centre_gaps(study, where)
    _check_analyses(study, where)


def _check_centre_gaps(study: Study, where: str) -> None:
    for variant in study.variants.values():
        if study.centre_gaps and variant.description["source"] in IMAGE_SOURCES:
            raise UserError(
                f"Config: {where}.centre_gaps needs synthetic data with a known subspace, which {variant.dataset} "
                f"(source {variant.description['source']}) is not; set it to null."
            )


def _check_network(network: Config, dataset: str, dataset_spec: Config, where: str) -> None:
    name, source = network["name"], dataset_spec["source"]
    if name == "coherence_student" and source in CLASS_SOURCES:
        raise UserError(
            f"Config: {where}: network.name = coherence_student has one output, but data set {dataset} (source "
            f"{source}) has classes; use mlp."
        )
    if name == "vit" and network["dim"] % network["heads"]:
        raise UserError(
            f"Config: {where}: network.heads = {network['heads']} does not divide network.dim = {network['dim']}."
        )
    if name in READ_IMAGES and source in OTHER_SOURCES:
        raise UserError(
            f"Config: {where}: network.name = {name} reads images, but the samples of data set {dataset} (source "
            f"{source}) are none; use mlp. Sources with images: {', '.join(IMAGE_SOURCES)}."
        )
    if name in READ_IMAGES and source in INPUTS:
        side = math.isqrt(INPUTS[source] // network["channels"])
        if network["channels"] * side * side != INPUTS[source]:
            raise UserError(
                f"Config: {where}: network.channels = {network['channels']}, but the images of data set {dataset} "
                f"(source {source}) have {3 if source.startswith('cifar10') else 1}."
            )
        if name == "vgg" and side < VGG_SIDE:
            raise UserError(
                f"Config: {where}: network.name = vgg halves images five times, so they need {VGG_SIDE} pixels a side; "
                f"those of data set {dataset} have {side}."
            )
        if name == "vit" and side % network["patch"]:
            raise UserError(
                f"Config: {where}: network.patch = {network['patch']} does not divide the {side} pixels of a side of "
                f"the images of data set {dataset}."
            )
    if name == "vgg" and network["depth"] not in VGG_DEPTHS:
        raise UserError(
            f"Config: {where}: network.depth = {network['depth']}, but vgg has "
            f"{', '.join(map(str, VGG_DEPTHS))} weight layers."
        )
    if name == "resnet20" and 16 * network["width_multiplier"] % network["norm_groups"]:
        raise UserError(
            f"Config: {where}: network.norm_groups = {network['norm_groups']} does not divide the "
            f"{16 * network['width_multiplier']} channels of the first block group."
        )


def _check_analyses(study: Study, where: str) -> None:
    path = study.interpolation
    if path and path["lambdas"] % 2 == 0:
        raise UserError(
            f"Config: {where}.interpolation.lambdas = {path['lambdas']} must be odd: the midpoint is on the path."
        )
    if path and path["aligned"] and not study.matching:
        raise UserError(
            f"Config: {where}.interpolation.aligned needs {where}.matching; set aligned: false or add matching: {{}}."
        )
    if study.ridge and not study.identification:
        raise UserError(
            f"Config: {where}.ridge needs {where}.identification, to compare its costs with; add identification: {{}}."
        )
    if study.ridge and study.ridge["reported"] not in study.ridge["beta"]:
        raise UserError(
            f"Config: {where}.ridge.reported = {study.ridge['reported']} is not among {where}.ridge.beta = "
            f"{study.ridge['beta']}; report one of them."
        )
    for variant in study.variants.values():
        for analysis in ("identification", "ridge", "theory"):
            if getattr(study, analysis) and variant.network["name"] in NOT_IDENTIFIED:
                raise UserError(
                    f"Config: {where}.{analysis} needs networks that are a chain of linear maps, which "
                    f"{variant.network['name']} is not; leave {analysis} out of this study."
                )
        narrow = min([*variant.network.get("widths", []), variant.network.get("width", 3)])
        if (study.ridge or study.theory) and narrow < 3:
            raise UserError(
                f"Config: {where}.{'ridge' if study.ridge else 'theory'} swaps neurons, but variant {variant.name} has "
                f"a layer of {narrow}; give every hidden layer three or more."
            )
        if study.theory and variant.scheme["name"] not in BOUNDED_SCHEMES:
            raise UserError(
                f"Config: {where}.theory knows the moments of D under {', '.join(BOUNDED_SCHEMES)}, but variant "
                f"{variant.name} has scheme.name = {variant.scheme['name']}; leave theory out of this study."
            )
        # Costs by ridge regression are of neurons that are functions of their own pre-activation alone.
        for key, joint, allowed in (
            ("norm", "layernorm", "batchnorm or none (layernorm is the default)"),
            ("activation", "sigma", "gelu or relu"),
        ):
            if study.ridge and variant.network.get(key) == joint:
                raise UserError(
                    f"Config: {where}.ridge needs network.{key}: {allowed}, but variant {variant.name} has {joint}, "
                    "with which a neuron's output depends on the other neurons too."
                )


def _check_counts(scheme: Config, network: Config, dataset: Config, where: str) -> None:
    inputs = INPUTS.get(dataset["source"], dataset.get("d"))
    if scheme["name"] != "w_asymmetric" or inputs is None or network["name"] != "mlp":
        return
    sizes = [inputs, *network["widths"]]
    try:
        fixed_counts(scheme, {f"linears.{layer}": size for layer, size in enumerate(sizes)})
    except UserError as error:
        raise UserError(f"Config: {where}: {error}") from None


def _check_heads(scheme: Config, network: Config, where: str) -> None:
    if scheme["name"] != "w_asymmetric_heads" or network["name"] not in (*WITHOUT_HEADS, "vit"):
        return
    if network["name"] in WITHOUT_HEADS:
        raise UserError(
            f"Config: {where}.scheme.name = w_asymmetric_heads needs a network with attention heads, "
            f"but network.name is {network['name']}; use w_asymmetric."
        )
    if scheme["heads"] != network["heads"]:
        raise UserError(
            f"Config: {where}.scheme.heads = {scheme['heads']} is not network.heads = {network['heads']}; "
            "masks can follow the heads only if there are as many."
        )


def _check_augment(recipe: Config, dataset: str, dataset_spec: Config, where: str) -> None:
    source = dataset_spec["source"]
    if recipe["augment"] is not None and source in OTHER_SOURCES:
        raise UserError(
            f"Config: {where}: recipe.augment flips and crops images, but the samples of data set {dataset} (source "
            f"{source}) are none; set recipe.augment: null. Sources with images: {', '.join(IMAGE_SOURCES)}."
        )
