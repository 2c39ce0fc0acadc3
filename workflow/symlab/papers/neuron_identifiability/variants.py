"""The paper's variants: their names, their values by case, and the sweep over sigma_F.

Only pandas is imported: a claims job does not pay for matplotlib.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.masks import Mask, every_row, w_asymmetric
from symlab.plotting.pairs import PAIR
from symlab.study.cases import Cases, cases
from symlab.study.tables import where

SERIES = ["family", "scheme", "sigma_F", "fixed_fraction", "activation", "norm"]
SIZES = ["width", "depth"]
KEY = ["scheme", "sigma_F", "fixed_fraction", "activation", "dataset", "k"]
"""What describes a variant in the key of a claim's case."""
_SCHEME_ORDER = ["standard", "w_asymmetric", "syre"]
_SCHEME_NAMES = {"w_asymmetric": "W", "w_asymmetric_heads": "W by head"}
_ADD_W = "a w_asymmetric variant with sweep: {scheme.sigma_F: [0, 1]}"


def smallest_large(sigma_F: pd.Series) -> float | None:
    """The smallest sigma_F >= 1, the paper's centre-dominated regime; None if there is none."""
    large = sigma_F[sigma_F >= 1]
    return None if large.empty else float(large.min())


# Names


def name_variant(row: pd.Series, latex: bool) -> str:
    """The name of a variant from its description columns, in mathematical type for legends or plain for the ledger.

    Its scheme, sigma_F and kind of nonlinearity decide it: ``W, $\\sigma_F$ = 1`` or ``W σ_F = 1``.
    """
    sigma_net = row.get("activation") == "sigma"
    sigma_name = r"$\sigma$-MLP" if latex else "σ-MLP"
    plain = row["scheme"] == "standard"
    name = sigma_name if sigma_net and plain else str(_SCHEME_NAMES.get(row["scheme"], row["scheme"]))
    if pd.notna(row["sigma_F"]):
        name += (r", $\sigma_F$" if latex else " σ_F") + f" = {row['sigma_F']:g}"
    return name + (f", {sigma_name}" if sigma_net and not plain else "")


def names_of(table: pd.DataFrame) -> dict[str, str]:
    """The plain name of each variant, in the table's order; names are unique."""
    telling = [column for column in ("dataset", "norm", "fixed_fraction") if table[column].nunique() > 1]
    names = {}
    for variant, row in table.drop_duplicates("variant").set_index("variant").iterrows():
        further = [f"{column} = {_short(row[column])}" for column in telling if pd.notna(row[column])]
        names[str(variant)] = ", ".join([name_variant(row, latex=False), *further])
    counts = Counter(names.values())
    return {variant: name if counts[name] == 1 else f"{name} ({variant})" for variant, name in names.items()}


def _short(value: object) -> str:
    """A value of a description as a name has it."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def by_variant(
    table: pd.DataFrame,
    value: str,
    which: Mask = every_row,
    by: Sequence[str] = (),
    unit: Sequence[str] = PAIR,
    name: str = "{name}",
) -> Cases:
    """The values of a column by variant, of those that ``which`` chooses, and by further columns.

    A case's key is its variant's id with what ``KEY`` describes it by, and the values of ``by``. Its name is a format
    of these and of ``{name}``, the variant's.
    """
    rows = table[which(table)]
    names, described = names_of(rows), [each for each in KEY if each in rows]

    def write(key: Mapping[str, Any]) -> str:
        return name.format(**{**key, "name": names[key["variant"]]})

    return cases(rows, value, [*described, "variant", *by], unit, write)


def variants_of(table: pd.DataFrame) -> pd.DataFrame:
    """One row a variant: index ``variant``, columns ``SERIES``, dataset, k and, where the table tells them, ``SIZES``.

    Rows come in the order of legends: standard, W-asymmetric and syre by sigma_F, sigma-MLP, then all other schemes.
    """
    columns = [*SERIES, "dataset", "k", *(size for size in SIZES if size in table)]
    variants = table.drop_duplicates("variant").set_index("variant")[columns]
    ranks = {scheme: rank for rank, scheme in enumerate(_SCHEME_ORDER)}
    rank = variants["scheme"].map(ranks).fillna(len(ranks) + 1).where(variants["activation"] != "sigma", len(ranks))
    ordered = variants.assign(rank=rank).sort_values(["rank", "sigma_F"], kind="stable", na_position="first")
    return ordered.drop(columns="rank")


def add_labels(variants: pd.DataFrame) -> pd.DataFrame:
    """The variants with a ``label`` for legends that only variants differing in nothing but their data set share."""
    found = variants.assign(label=[name_variant(row, latex=True) for _, row in variants.iterrows()])
    for column in (each for each in ("family", "fixed_fraction", "norm", *SIZES) if each in found):
        twice = found.duplicated(["label", "dataset"], keep=False).groupby(found["label"]).transform("any")
        differs = found.groupby("label")[column].transform("nunique", dropna=False) > 1
        told = found[column].map(f"{column} {{:g}}".format if column in SIZES else str)
        found["label"] = found["label"].mask(twice & differs, found["label"] + " (" + told + ")")
    return found


def label_rows(table: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """The rows of the given variants (of ``add_labels``) with their ``label``."""
    chosen = table[table["variant"].isin(variants.index)]
    return chosen.assign(label=chosen["variant"].map(variants["label"]))


def label_all(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of all variants with their ``label``, and the variants with theirs."""
    variants = add_labels(variants_of(table))
    return label_rows(table, variants), variants


# Sweeps over sigma_F


def sigma_sweep(table: pd.DataFrame) -> pd.DataFrame:
    """The W-asymmetric variants that differ in sigma_F (and data set) alone: the largest such set, the first of equals.

    They have their ``label``.

    Raises:
        UserError: there are no W-asymmetric variants.
    """
    variants = variants_of(table)
    plain = variants[w_asymmetric(variants)]
    if plain.empty:
        raise UserError(f"{where(table)}.variants has no W-asymmetric variant; add {_ADD_W}.")
    group = plain.groupby(["family", "fixed_fraction", "norm"], dropna=False, sort=False)["sigma_F"]
    counts = group.transform("nunique")
    return add_labels(plain[group.ngroup() == group.ngroup()[counts.idxmax()]])


def compared_variants(table: pd.DataFrame) -> pd.DataFrame:
    """The variants a comparison shows, with labels: all schemes, of the W-asymmetric ones those of ``sigma_sweep``.

    A sweep over the number of fixed weights is left out, it has its own figure.
    """
    variants = variants_of(table)
    w = w_asymmetric(variants)
    return add_labels(variants[~w | variants.index.isin(sigma_sweep(table).index)] if w.any() else variants)


def telling_variants(table: pd.DataFrame) -> pd.DataFrame:
    """Of ``compared_variants``, W-asymmetric and syre ones with sigma_F = 0 and the smallest >= 1 alone."""
    variants = compared_variants(table)
    swept = variants["scheme"].isin(["w_asymmetric", "syre"]) & (variants["activation"] != "sigma")
    by_scheme = variants[swept].groupby("scheme")["sigma_F"]
    telling = by_scheme.transform(lambda values: values.isin([0, smallest_large(values)]))
    return variants[~swept | telling.astype(bool).reindex(variants.index, fill_value=False)]


def sigma_regimes(table: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """The W-asymmetric sweep and its two telling values of sigma_F: 0 and the smallest >= 1.

    Raises:
        UserError: one of the two is missing.
    """
    sweep = sigma_sweep(table)
    large = smallest_large(sweep["sigma_F"])
    if large is None or not (sweep["sigma_F"] == 0).any():
        raise UserError(
            f"{where(table)}.variants needs W-asymmetric variants with sigma_F 0 and with sigma_F of at least 1; "
            f"add {_ADD_W}."
        )
    return sweep, [0.0, large]
