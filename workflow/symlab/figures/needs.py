"""What a study must hold so that a figure can be drawn from it, told by its config alone, before anything is trained.

Each function here gives what the study lacks, to follow "needs", or None. Drawing checks the same of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from symlab.analyses import ANALYSIS_OF
from symlab.errors import UserError
from symlab.figures import FIGURES

if TYPE_CHECKING:
    from symlab.study import Project, Study, Variant

Description = dict[str, Any]

_SWEEP = "sweep: {scheme.sigma_F: [0, 1]}"


def check_figures(project: Project) -> None:
    """Refuse figures that are unknown or that their study cannot give.

    Raises:
        UserError: names the study's key to set.
    """
    for study in project.studies.values():
        for figure in study.figures:
            _check(figure, study)


def _check(figure: str, study: Study) -> None:
    where = f"studies.{study.name}"
    if figure not in FIGURES:
        raise UserError(
            f"Config: {where}.figures names {figure!r}; figures that can be drawn are {', '.join(FIGURES)}."
        )
    for table in FIGURES[figure].tables:
        key = ANALYSIS_OF.get(table)
        if key and not getattr(study, key):
            raise UserError(
                f"Config: {where}.figures asks for figure {figure}, which is drawn from {table} and needs "
                f"{where}.{key}; add {key}: {{}} or leave the figure out."
            )
    for need in NEEDS.get(figure, ()):
        if lacking := need(study):
            raise UserError(
                f"Config: {where}.figures asks for figure {figure}, which needs {lacking}; change that or leave the "
                "figure out."
            )


def two_sigmas(study: Study) -> str | None:
    if len({row["sigma_F"] for row in _sigma_sweep(_descriptions(study))}) >= 2:
        return None
    return f"a W-asymmetric variant with at least two values of sigma_F ({_SWEEP})"


def both_regimes(study: Study) -> str | None:
    return _both_regimes(_descriptions(study))


def both_regimes_by_k(study: Study) -> str | None:
    rows = [row for row in _descriptions(study) if row["k"] is not None]
    if not rows:
        return f"data of intrinsic dimension k in studies.{study.name}.dataset (source: gmm, sweep: {{k: [2, 8, 32]}})"
    return _both_regimes(rows)


def two_fractions(study: Study) -> str | None:
    by_family: dict[str, set[float]] = {}
    for row in filter(_is_w, _descriptions(study)):
        by_family.setdefault(row["family"], set()).add(row["fixed_fraction"])
    if max((len(values - {None}) for values in by_family.values()), default=0) >= 2:
        return None
    return (
        "a W-asymmetric variant with at least two values of fixed_fraction "
        "(sweep: {scheme.fixed_fraction: [0.125, 0.5], scheme.sigma_F: [0, 1]})"
    )


def several_epochs(study: Study) -> str | None:
    if len({epoch for name in study.variants for epoch in study.epochs(name)}) >= 2:
        return None
    return f"networks of several epochs: list some below the last in studies.{study.name}.snapshots"


def classes(study: Study) -> str | None:
    # Of a source that was added nothing is known, so it may have classes.
    if any(row["source"] != "coherence" for row in _descriptions(study)):
        return None
    return f"data with classes in studies.{study.name}.dataset, which has real targets"


def train_split(study: Study) -> str | None:
    return _split(study, "train")


def test_split(study: Study) -> str | None:
    return _split(study, "test")


def aligned_paths(study: Study) -> str | None:
    if study.interpolation and study.interpolation["aligned"]:
        return None
    return f"aligned paths too: set studies.{study.name}.interpolation.aligned to true and add matching"


def two_coherences(study: Study) -> str | None:
    if len({row["t"] for row in _descriptions(study)} - {None}) >= 2:
        return None
    return f"a coherence data set with at least two values of t (sweep: {{t: [1, 10]}}) in studies.{study.name}.dataset"


def two_betas(study: Study) -> str | None:
    if study.ridge and len(study.ridge["beta"]) >= 2:
        return None
    return f"at least two values in studies.{study.name}.ridge.beta"


def standard(study: Study) -> str | None:
    if any(row["scheme"] == "standard" and row["activation"] != "sigma" for row in _descriptions(study)):
        return None
    return f"a variant with scheme.name: standard (and no sigma activation) in studies.{study.name}.variants"


def w_zero(study: Study) -> str | None:
    if any(row["sigma_F"] == 0 for row in _sigma_sweep(_descriptions(study))):
        return None
    return f"a W-asymmetric variant with sigma_F = 0 in studies.{study.name}.variants"


def w_large(study: Study) -> str | None:
    if any(row["sigma_F"] >= 1 for row in _sigma_sweep(_descriptions(study))):
        return None
    return f"a W-asymmetric variant with sigma_F of at least 1 in studies.{study.name}.variants"


def syre_large(study: Study) -> str | None:
    rows = [row for row in _descriptions(study) if row["scheme"] == "syre" and row["activation"] != "sigma"]
    if any(row["sigma_F"] >= 1 for row in rows):
        return None
    return f"a syre variant with sigma_F of at least 1 in studies.{study.name}.variants"


def masks(study: Study) -> str | None:
    if any(_has_masks(variant) for variant in study.variants.values()):
        return None
    return f"a variant whose masks D vary (w_asymmetric, syre or sparse) in studies.{study.name}.variants"


def fixed_weights(study: Study) -> str | None:
    if any(_has_fixed_weights(variant) for variant in study.variants.values()):
        return None
    return f"a variant with fixed weights (scheme.sigma_F above 0) in studies.{study.name}.variants"


def _descriptions(study: Study) -> list[Description]:
    return [variant.description for variant in study.variants.values()]


def _is_w(row: Description) -> bool:
    return row["scheme"] == "w_asymmetric" and row["activation"] != "sigma"


def _sigma_sweep(rows: Iterable[Description]) -> list[Description]:
    """The W-asymmetric variants that differ in sigma_F and data set alone: the largest such set, as drawn."""
    sets: dict[tuple[Any, ...], list[Description]] = {}
    for row in sorted(filter(_is_w, rows), key=lambda row: row["sigma_F"]):
        sets.setdefault((row["family"], row["fixed_fraction"], row["norm"]), []).append(row)
    return max(sets.values(), key=lambda of_set: len({row["sigma_F"] for row in of_set}), default=[])


def _both_regimes(rows: list[Description]) -> str | None:
    scales = {row["sigma_F"] for row in _sigma_sweep(rows)}
    if 0 in scales and max(scales) >= 1:
        return None
    return f"W-asymmetric variants with sigma_F 0 and with sigma_F of at least 1 ({_SWEEP})"


def _split(study: Study, name: str) -> str | None:
    if study.interpolation and name in study.interpolation["splits"]:
        return None
    return f"{name} among studies.{study.name}.interpolation.splits"


def _has_masks(variant: Variant) -> bool:
    scheme = variant.scheme
    if scheme["name"] == "syre":
        return bool(scheme["epsilon"] > 0)
    if scheme["name"] == "sparse":
        return bool(scheme["density"] < 1)
    return scheme["name"] in ("w_asymmetric", "w_asymmetric_heads") and _fixes_any(scheme)


def _has_fixed_weights(variant: Variant) -> bool:
    scheme = variant.scheme
    if scheme["name"] == "residual":
        return True
    return bool(scheme.get("sigma_F", 0) > 0) and (scheme["name"] == "syre" or _fixes_any(scheme))


def _fixes_any(scheme: dict[str, Any]) -> bool:
    amount = scheme.get("n_fixed", scheme.get("fixed_fraction"))
    amounts = amount.values() if isinstance(amount, dict) else amount if isinstance(amount, list) else [amount]
    return any(amounts)


NEEDS: dict[str, tuple[Callable[[Study], str | None], ...]] = {
    "3a": (two_sigmas,),
    "3b": (two_sigmas,),
    "3c": (several_epochs, both_regimes),
    "4": (classes, train_split, aligned_paths),
    "4b": (classes, train_split, aligned_paths),
    "5": (both_regimes_by_k,),
    "6": (two_coherences, test_split),
    "7": (several_epochs,),
    "8": (two_sigmas,),
    "9": (two_sigmas,),
    "10": (two_fractions,),
    "13": (both_regimes_by_k,),
    "15": (both_regimes_by_k,),
    "16": (standard,),
    "17": (w_zero,),
    "18": (w_large,),
    "19": (syre_large,),
    "20": (classes, train_split),
    "21": (several_epochs,),
    "ridge": (two_betas,),
    "thm4.4": (masks,),
    "thm4.5": (fixed_weights,),
    "thm4.7": (fixed_weights,),
    "thm4.8": (fixed_weights,),
    "thm5.1": (fixed_weights,),
    "sec4.5": (two_sigmas, classes),
    "prop5.2": (classes,),
}
