"""What a study must hold so that a figure can be drawn from it, told by its config alone, before anything is trained.

Each function here gives what the study lacks, to follow "needs", or None. Drawing checks the same of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from symlab.analyses import ANALYSIS_OF
from symlab.errors import UserError
from symlab.figures import FIGURES
from symlab.permutation_invariance.grid import Point, points

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
        if not key or study.analysis(key):
            continue
        if key.startswith("teacher_student"):
            raise UserError(
                f"Config: {where}.figures asks for figure {figure}, which is drawn from {table} and needs "
                f"{where}.{key}; see presets/permutation.yaml for one, or leave the figure out."
            )
        if study.teacher_student:
            raise UserError(
                f"Config: {where}.figures asks for figure {figure}, which is drawn from networks trained on data, but "
                f"{where} trains students of a teacher; list the figure in another study."
            )
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


def three_widths_above(study: Study) -> str | None:
    points = _students(study, "widths")
    return _three_above(study, points[:1], points)


def three_widths_above_each(study: Study) -> str | None:
    points = _students(study, "widths")
    return _three_above(study, points, points)


def two_teachers(study: Study) -> str | None:
    if len({(point.M, point.d) for point in _students(study, "widths")}) >= 2:
        return None
    return f"at least two (M, d): make {_grids_key(study, 'widths')} a list of grids"


def widths_around_teacher(study: Study) -> str | None:
    trained = _students(study, "widths", trained=True)
    below, above = ({(point.M, point.d) for point in trained if sign * point.m > sign * point.M} for sign in (-1, 1))
    if below & above:
        return None
    return f"runs at widths m below M and above it in {_grids_key(study, 'widths')}"


def three_ratios(study: Study) -> str | None:
    if max(map(len, _widths_above(_students(study, "ratios")).values()), default=0) >= 3:
        return None
    return f"at least three values of ratio above 1 in {_grids_key(study, 'ratios')}"


def two_rates_and_widths(study: Study) -> str | None:
    trained = _students(study, "sparsity", trained=True)
    rates = min(len({f"{rate:.6g}" for rate in rates}) for rates in zip(*((p.c, p.lr) for p in trained), strict=True))
    if rates >= 2 and len({point.m for point in trained}) >= 2:
        return None
    return f"at least two values of c (or lr) and of m in {_grids_key(study, 'sparsity')}"


def three_rates(study: Study) -> str | None:
    if len({point.lr for point in _students(study, "learning_rates", trained=True)}) >= 3:
        return None
    return f"at least three values of lr in {_grids_key(study, 'learning_rates')}"


def two_dimensions(study: Study) -> str | None:
    points = _students(study, "dimensions")
    if len({point.d for point in points if point.M == points[0].M and point.m > point.M}) >= 2:
        return None
    return f"at least two values of d, with widths m above M, in {_grids_key(study, 'dimensions')}"


def two_teacher_widths(study: Study) -> str | None:
    points = _students(study, "teachers")
    if len({point.M for point in points if point.d == points[0].d and point.m > point.M}) >= 2:
        return None
    return f"at least two values of M, with widths m above each, in {_grids_key(study, 'teachers')}"


def three_network_widths(study: Study) -> str | None:
    return _network_widths(study, 3)


def network_width(study: Study) -> str | None:
    return _network_widths(study, 1)


def two_depths(study: Study) -> str | None:
    depths = {row.get("depth") for row in _descriptions(study) if row.get("width") is not None}
    if len(depths - {None}) >= 2:
        return None
    return f"networks of at least two depths in studies.{study.name}.variants (sweep over network.widths)"


def _students(study: Study, role: str, *, trained: bool = False) -> list[Point]:
    """The students of a role's grids, those of grids with runs alone if they have to be ``trained``."""
    grids = study.analysis(f"teacher_student.{role}")
    return [point for grid in grids for point in points(grid) if grid["runs"] or not trained]


def _grids_key(study: Study, role: str) -> str:
    return f"studies.{study.name}.teacher_student.{role}"


def _widths_above(students: list[Point]) -> dict[tuple[int, int], set[int]]:
    """The widths above M of each teacher (M, d)."""
    widths: dict[tuple[int, int], set[int]] = {}
    for point in students:
        widths.setdefault((point.M, point.d), set()).update({point.m} if point.m > point.M else ())
    return widths


def _three_above(study: Study, of: list[Point], students: list[Point]) -> str | None:
    """Whether each teacher of some points has students of three widths above its own."""
    widths = _widths_above(students)
    for M, d in dict.fromkeys((point.M, point.d) for point in of):
        if len(widths[M, d]) < 3:
            return f"at least three widths m above M = {M} (with d = {d}) in {_grids_key(study, 'widths')}"
    return None


def _network_widths(study: Study, least: int) -> str | None:
    """As drawn: networks of a data set, depth and family that differ in width."""
    widths: dict[tuple[Any, ...], set[Any]] = {}
    for row in _descriptions(study):
        key = tuple(row.get(name) for name in ("dataset", "depth", "family"))
        widths.setdefault(key, set()).add(row.get("width"))
    if max((len(values - {None}) for values in widths.values()), default=0) >= least:
        return None
    return (
        f"networks of at least {least} {'width' if least == 1 else 'widths'} in studies.{study.name}.variants "
        "(sweep over network.widths or network.width_multiplier)"
    )


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
    "permutation-2": (three_widths_above,),
    "permutation-3": (three_ratios,),
    "permutation-4": (widths_around_teacher,),
    "permutation-5": (two_rates_and_widths,),
    "permutation-6": (three_rates,),
    "permutation-7": (train_split, aligned_paths, three_network_widths),
    "permutation-8": (train_split, aligned_paths, three_network_widths),
    "permutation-10": (two_teachers, three_widths_above_each),
    "permutation-11": (two_dimensions,),
    "permutation-12": (two_teacher_widths,),
    "permutation-13": (three_rates,),
    "permutation-14": (train_split, aligned_paths, three_network_widths, two_depths),
    "permutation-15": (train_split, aligned_paths, network_width),
}
