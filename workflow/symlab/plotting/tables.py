"""What the figures need from the tidy tables: choosing variants and averaging over pairs, models and layers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from symlab.analyses import ANALYSIS_OF
from symlab.errors import UserError

SERIES = ["family", "scheme", "sigma_F", "fixed_fraction", "activation", "norm"]
SIZES = ["width", "depth"]
PERMUTATIONS = ("optimal", "identity", "random")
_SCHEME_ORDER = ["standard", "w_asymmetric", "syre"]
_SCHEME_NAMES = {"w_asymmetric": "W", "w_asymmetric_heads": "W by head"}
_POINT_NAMES = (
    (r"hidden(\d+)", r"after layer \1"),
    (r"stream(\d+)", r"BG \1 residual stream"),
    (r"inner(\d+\.\d+)", r"layer \1 inner"),
    (r"stream", r"residual stream"),
    (r"mlp(\d+)", r"MLP \1 inner"),
)
_ADD_W = "a w_asymmetric variant with sweep: {scheme.sigma_F: [0, 1]}"


def need(tables: dict[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """The table of a name.

    Raises:
        UserError: it is missing or empty; the sentence names the analysis that gives it.
    """
    table = tables.get(name)
    if table is None or table.empty:
        raise UserError(f"it needs {name} with at least one row, so set {ANALYSIS_OF[name]} in its study.")
    return table


def where(table: pd.DataFrame) -> str:
    """The study of a table as the config's key, e.g. ``studies.digits``."""
    return f"studies.{table['study'].iloc[0]}"


def variant_label(row: pd.Series) -> str:
    """The name of a variant in legends, from its description columns; scheme and sigma_F decide it."""
    sigma_net = row.get("activation") == "sigma"
    if row["scheme"] == "standard":
        return r"$\sigma$-MLP" if sigma_net else "standard"
    name = _SCHEME_NAMES.get(row["scheme"], row["scheme"])
    scale = "" if pd.isna(row["sigma_F"]) else rf", $\sigma_F$ = {row['sigma_F']:g}"
    return name + scale + (r", $\sigma$-MLP" if sigma_net else "")


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


def named(variants: pd.DataFrame) -> pd.DataFrame:
    """The variants with a ``label`` that only variants differing in nothing but their data set share."""
    named = variants.assign(label=[variant_label(row) for _, row in variants.iterrows()])
    for column in (each for each in ("family", "fixed_fraction", "norm", *SIZES) if each in named):
        by_label = named.groupby("label")
        twice = by_label["dataset"].transform(lambda names: names.duplicated().any())
        differs = by_label[column].transform(lambda values: values.nunique(dropna=False) > 1)
        unclear = twice.astype(bool) & differs.astype(bool)
        named["label"] = [
            f"{label} ({f'{column} {value:g}' if column in SIZES else value})" if add else label
            for label, value, add in zip(named["label"], named[column], unclear, strict=True)
        ]
    return named


def w_asymmetric(variants: pd.DataFrame) -> pd.Series:
    """Which variants are W-asymmetric networks with an elementwise nonlinearity."""
    return (variants["scheme"] == "w_asymmetric") & (variants["activation"] != "sigma")


def sigma_sweep(table: pd.DataFrame) -> pd.DataFrame:
    """The W-asymmetric variants that differ in sigma_F (and data set) alone: the largest such set, the first of equals.

    They are ``named``.

    Raises:
        UserError: there are no W-asymmetric variants.
    """
    variants = variants_of(table)
    plain = variants[w_asymmetric(variants)]
    if plain.empty:
        raise UserError(f"{where(table)}.variants has no W-asymmetric variant; add {_ADD_W}.")
    group = plain.groupby(["family", "fixed_fraction", "norm"], dropna=False, sort=False)["sigma_F"]
    counts = group.transform("nunique")
    return named(plain[group.ngroup() == group.ngroup()[counts.idxmax()]])


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """The variants a comparison shows, ``named``: all schemes, of the W-asymmetric ones those of ``sigma_sweep``.

    A sweep over the number of fixed weights is left out, it has its own figure.
    """
    variants = variants_of(table)
    w = w_asymmetric(variants)
    return named(variants[~w | variants.index.isin(sigma_sweep(table).index)] if w.any() else variants)


def smallest_large(sigma_F: pd.Series) -> float | None:
    """The smallest sigma_F >= 1, the paper's centre-dominated regime; None if there is none."""
    large = sigma_F[sigma_F >= 1]
    return None if large.empty else float(large.min())


def regimes(table: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
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


def labelled(table: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """The rows of the given variants with their ``label``."""
    chosen = table[table["variant"].isin(variants.index)]
    return chosen.assign(label=chosen["variant"].map(variants["label"]))


def named_layers(rows: pd.DataFrame, of: pd.DataFrame) -> str:
    """The labels of some rows, with their layers and data sets where those are not all that the label has in ``of``."""
    every, some = (_places(table) for table in (of, rows))
    names = []
    for label, layers_of in some.items():
        if layers_of == every[label]:
            names.append(label)
        elif len(set(layers_of.values())) == 1 and layers_of.keys() == every[label].keys():
            names.append(f"{label} in layer {_listed(next(iter(layers_of.values())))}")
        else:
            several = len(every[label]) > 1
            for dataset, layers in layers_of.items():
                name = f"{label} on {dataset}" if several else label
                names.append(name if layers == every[label][dataset] else f"{name} in layer {_listed(layers)}")
    # A name is not broken into two lines.
    return "; ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in names)


def _places(rows: pd.DataFrame) -> dict[str, dict[str, tuple[int, ...]]]:
    """The layers of each label on each data set."""
    places: dict[str, dict[str, tuple[int, ...]]] = {}
    for (label, dataset), part in rows.groupby(["label", "dataset"], sort=False):
        places.setdefault(str(label), {})[str(dataset)] = tuple(sorted(part["layer"].unique()))
    return places


def _listed(layers: tuple[int, ...]) -> str:
    return ", ".join(map(str, layers))


def one_matching(paths: pd.DataFrame) -> pd.DataFrame:
    """The rows of unaligned paths and of those aligned by the first method that the table lists.

    Tables of runs that knew one method have no column ``matching`` and are given back whole.
    """
    if "matching" not in paths:
        return paths
    methods = paths.loc[paths["aligned"], "matching"].unique()
    return paths[~paths["aligned"] | paths["matching"].isin(methods[:1])]


def last_epoch(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each variant's last epoch."""
    return table[table["epoch"] == table.groupby("variant")["epoch"].transform("max")]


def over_layers(matching: pd.DataFrame) -> pd.DataFrame:
    """The matching table with each pair's objective averaged over its layers."""
    pair = ["study", "variant", "dataset", "label", "sigma_F", "mask_seed", "pair", "epoch", "permutation"]
    return matching.groupby(pair, dropna=False, sort=False, as_index=False)["objective"].mean()


def mean_std(table: pd.DataFrame, x: str, value: str) -> pd.DataFrame:
    """Columns x, mean, std of ``value`` at each x in rising order; std has n - 1 in it and is 0 for a single row."""
    return table.groupby(x)[value].agg(["mean", "std"]).fillna({"std": 0.0}).reset_index()


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct recording points from input to output.

    The names that symlab's networks give (hidden2, stream1, inner1.3) tell their places. If there are others, those of
    traced networks, all keep the order in which they come.
    """
    distinct = list(dict.fromkeys(names))
    places = {name: place for name in distinct if (place := _place(name)) is not None}
    return sorted(distinct, key=places.__getitem__) if len(places) == len(distinct) else distinct


def _place(name: str) -> tuple[float, ...] | None:
    ends = {"all": -2.0, "input": -1.0, "output": math.inf}
    if name in ends:
        return (ends[name],)
    found = re.fullmatch(r"hidden(\d+)|stream(\d+)|inner(\d+)\.(\d+)", name)
    return None if found is None else tuple(float(number) for number in found.groups() if number is not None)


def block_group(point: str) -> int | None:
    """The number of the block group of residual blocks that a recording point (stream1, inner1.3) lies in."""
    found = re.fullmatch(r"(?:stream|inner)(\d+)(?:\.\d+)?", point)
    return None if found is None else int(found.group(1))


def point_name(point: str) -> str:
    """The name for people of a recording point after which neurons are compared; a traced one's is its own."""
    if point == "all":
        return "all layers"
    for pattern, name in _POINT_NAMES:
        if found := re.fullmatch(pattern, point):
            return found.expand(name)
    # Two dollar signs would be read as mathematics.
    return point.replace("$", r"\$")


def signed_sqrt(values: pd.Series) -> np.ndarray:
    """sign(x) sqrt(|x|), the transform swap costs are shown in."""
    x = values.to_numpy(dtype=np.float64)
    return np.sign(x) * np.sqrt(np.abs(x))
