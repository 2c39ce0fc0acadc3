"""How tight Proposition 3.3 is: ratios of the fastest escape direction for inputs near rank one, and the bound."""

import numpy as np
import pandas as pd

from symlab.plotting.style import COLUMN, Figure, Look, Style
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, below
from symlab.study.facets import assign_looks, draw_rows, facets, labelled
from symlab.study.tables import need

TABLE = "near_rank_one.csv"
FLOOR = 1e-16
"""Where zeros but for rounding are drawn."""
NAMES = {"A": "A, weights", "B": "B, hidden activations", "D": "D, what relu cuts"}
BOUND = "bound of Prop. 3.3"


def ratios_against_noise(tables: Tables, style: Style) -> Figure:
    rows = need(tables, TABLE).groupby("noise", as_index=False).max()
    lines = [rows.assign(label=name, value=largest(rows, letter).clip(lower=FLOOR)) for letter, name in NAMES.items()]
    looks = assign_looks(list(NAMES.values()), style)
    if len(finite := rows[np.isfinite(rows["bound"])]):
        lines.append(finite.assign(label=BOUND, value=finite["bound"]))
        looks[BOUND] = Look("black", "--", "")  # type: ignore[arg-type]
    axes = labelled("norm of the noise / norm of $uv^T$", "largest over layers", "xy")
    return facets(
        pd.concat(lines), "noise", "value", looks, axes=axes, draw=draw_rows, options={"join": True},
        width=1.3 * COLUMN, note="the largest of all draws",
    )  # fmt: skip


def largest(rows: pd.DataFrame, letter: str) -> pd.Series:
    """The largest ratio of the hidden layers (B_0 is of the inputs)."""
    return rows[[name for name in rows if name.startswith(f"{letter}_") and name != "B_0"]].max(axis=1, skipna=False)


FIGURES = {
    "saddle-prop3.3": Drawing(
        "Ratios for inputs near rank one",
        "Largest A, B and D over the layers, and over draws, of the fastest escape direction found for inputs uvᵀ + "
        "E, against the norm of E; dashed, where finite, the bound of Proposition 3.3. Values at the grey line are 0 "
        "up to rounding.",
        ratios_against_noise,
        seen=Sentence(
            "With noise of 0.4 times the norm of the rank-one part, weights are {A} beyond rank one, activations {B}.",
            {ratio: at("saddle-prop3.3-exact", ratio=ratio, noise=0.4) for ratio in "AB"},
        ),
        differs="Not in the paper, which proves the bound and conjectures exact rank one in most layers.",
    ),
}


def beyond_rank_one(tables: Tables) -> list[Found]:
    """The largest A and B over layers, the worst of all draws, a case a norm of the noise below 1."""
    rows = tables[TABLE][lambda each: each["noise"] < 1]
    found: list[Found] = []
    for ratio in "AB":
        values = rows.assign(value=largest(rows, ratio))
        name = f"{ratio}, noise {{noise:g}}"
        found += cases(values.assign(ratio=ratio), "value", ("ratio", "noise"), "seed", name).of_all(np.max)
    return found


CLAIMS = {
    "saddle-prop3.3-exact": Claim(
        statement="For inputs near rank one, the fastest direction has weights and activations of exactly rank one",
        quantity="largest A and B over layers of the fastest of all starts, the worst draw",
        bound=below(1e-6),
        owner="ours",
        origin="ours",
        reason="The paper proves a bound that falls with the noise. Exact rank one it conjectures of any inputs, at "
        "most layers (Section 5), and not of all layers here; 1e-6 is left for descents that have not quite ended.",
        tables=(TABLE,),
        measure=beyond_rank_one,
    ),
}
