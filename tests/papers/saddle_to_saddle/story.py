"""Tables on which the paper on saddles is right, and how each claim's are spoiled."""

import functools

import numpy as np
import pandas as pd

NAMES = [f"s{i}" for i in range(1, 11)]
KEY = {"study": "s", "dataset": "digits", "width": 8, "std": 0.01, "activation": "relu"}
SEEDS = 5


def polygon_runs():
    rows = []
    for width, hits in ((2, 0), (4, 2), (8, 10), (32, 18)):
        for run in range(20):
            hit = run < hits
            rows.append({"N": 8, "L": 3, "width": width, "run": run, "steps": 100, "speed": 0.4999 if hit else 0.4141})
            rows[-1] |= {"slope": 1e-3, "outcome": "success" if hit else "failure", "budget_missed": 0.0}
            rows[-1] |= {"second_1": 1.0 if hit else 0.0, "second_2": 0.01, "second_3": 0.0}
    return pd.DataFrame(rows)


def deep_runs():
    """Runs of width 8 at depths 4 and 5 that come as fast as the lifted ones, all layers but the first of rank one."""
    rows = []
    for L in (4, 5):
        for run in range(20):
            hit = run < 5
            rows.append({"N": 8, "L": L, "width": 8, "run": run, "steps": 100, "speed": 0.4998 if hit else 0.4141})
            rows[-1] |= {"slope": 1e-3, "outcome": "success" if hit else "failure", "budget_missed": 0.0}
            rows[-1] |= {f"second_{layer}": 1.0 if layer == 1 else 0.01 for layer in range(1, L + 1)}
    return pd.DataFrame(rows)


PLANTED = {"exponential": lambda width: np.exp(-0.06 * width), "power": lambda width: width**-0.7}


def missed_runs(chance):
    """400 runs at each of five widths of the hexagon, of which so many miss as P(fail) says."""
    rows = [
        {"N": 6, "L": 3, "width": width, "run": run, "outcome": "failure" if run < 400 * chance(width) else "success"}
        for width in (2, 4, 8, 16, 32)
        for run in range(400)
    ]
    return pd.DataFrame(rows)


def lifts():
    rows = [{"N": 8, "width": 8, "L": L, "of": of, "speed": 0.4999} for L, of in ((4, 3), (5, 3), (5, 4))]
    return pd.DataFrame(rows)


def polygon_budget():
    rows = []
    for of, width in (("Example 1", 4), ("fastest run", 8)):
        for term, layer in (("rank", 0), ("rank", 1), ("cut", 1), ("alignment", 2), ("norms", 1), ("output", 4)):
            rows.append({"N": 8, "L": 3, "width": width, "of": of, "term": term, "layer": layer, "lost": 0.4})
    return pd.DataFrame(rows)


def data_speeds():
    """One neuron has speed 0.3, descents on the sphere reach 0.4, and trained networks 0.5."""
    rows = [
        {"dataset": "digits", "L": L, "width": width, "run": run, "speed": fastest - 0.01 * run}
        for L, width, fastest in ((2, 1, 0.3), (4, 8, 0.4), (6, 8, 0.4))
        for run in range(3)
    ]
    return pd.DataFrame(rows)


def polygon_curves():
    runs = polygon_runs()
    return pd.concat(
        [runs[["N", "L", "width", "run"]].assign(step=step, speed=runs["speed"] * step / 100) for step in (0, 50, 100)]
    )


def _moments(L):
    """log10 s of the two falls of the loss: at depth 6 a decade and a half apart, at depth 4 half a decade."""
    return (2.0, 3.5) if L == 6 else (1.0, 1.5)


def course():
    tables = []
    for L in (6, 4):
        first, second = _moments(L)
        place = np.linspace(0, 5, 201)
        for seed in range(SEEDS):
            loss = 2.3 - sum(0.6 / (1 + np.exp(-(place - at - 0.02 * seed) / 0.02)) for at in (first, second))
            table = pd.DataFrame({"step": 10**place, "s": 10 * 10**place, "loss": loss}).assign(L=L, seed=seed, **KEY)
            start = table.iloc[:1].assign(step=0.0, s=0.0, loss=2.3)
            tables.append(pd.concat([start, table]))
    found = pd.concat(tables, ignore_index=True)
    residual = np.where(found["loss"] > 2.2, 1.0, 0.1)
    return found.assign(
        norm=2.0, gradient=1.0, speed=0.5, residual=residual + 1e-3 * found["seed"], lost_output=1.0, budget_missed=0.0
    )


def controls():
    """Second plateaus that grow by half a decade for each decade of the scale in linear networks, in ReLU ones not."""
    tables = []
    for activation, gained in (("relu", 0.0), ("identity", 0.5)):
        for std in (0.01, 0.001):
            for L, seed in ((L, seed) for L in (3, 6) for seed in range(SEEDS)):
                place = np.linspace(0, 5, 201)
                second = 3.0 + 0.03 * seed - gained * (np.log10(std) + 2)
                loss = 2.3 - sum(1.0 / (1 + np.exp(-(place - at) / 0.02)) for at in (2.0, second))
                table = pd.DataFrame({"step": 10**place, "s": 10 * 10**place, "loss": loss})
                start = table.iloc[:1].assign(step=0.0, s=0.0, loss=2.3)
                key = {**KEY, "activation": activation, "std": std, "L": L, "seed": seed}
                tables.append(pd.concat([start, table]).assign(**key))
    return pd.concat(tables, ignore_index=True)


def control_layers():
    """One value stands out in every layer from the first escape on, and a second in layer 1 of ReLU networks."""
    table = controls()
    left = table["s"] > 10**3.0
    found = []
    for layer in range(0, 7):
        rows = table[table["L"] >= layer]
        out = left[rows.index]
        values = {name: 0.9 for name in NAMES} | {"s1": np.where(rows["step"] == 0, 1.0, np.where(out, 3.0, 0.9))}
        values["s2"] = np.where(out & (rows["activation"] == "relu") & (layer == 1), 2.0, 0.9)
        found.append(rows.assign(layer=layer, **values))
    return pd.concat(found, ignore_index=True)


def layers():
    rows = []
    whole = course()
    for (L, seed), moments in whole.groupby(["L", "seed"]):
        first, second = (at + 0.02 * seed + 1 for at in _moments(L))
        for row in moments.itertuples():
            place = np.log10(max(row.s, 1e-9))
            left = bool(place > first)
            for layer in range(int(L) + 1):
                tall = [3.0] * int(left) + [2.0] * int(place > second)
                values = [*tall, *[0.9] * (10 - len(tall))]
                if row.step == 0:
                    values[0] = 1.0
                small = 1e-3 if left and layer > 1 else 0.4
                one = {
                    "L": L,
                    "seed": seed,
                    "step": row.step,
                    "layer": layer,
                    **KEY,
                    **dict(zip(NAMES, values, strict=True)),
                }
                rows.append(
                    one
                    | {
                        "A": 0.1,
                        "A_change": 0.3 / (1 + layer + 0.01 * seed),
                        "B": small,
                        "D": small,
                        "second_change": 0.1,
                        "lost_norms": 0.01 if layer else np.nan,
                        "lost_rank": (0.001 if layer > 2 else 1.0) if layer < L else np.nan,
                        "lost_cut": (0.001 if layer > 2 else 1.0) if 0 < layer < L else np.nan,
                        "lost_alignment": (0.002 + 1e-4 * seed if layer > 2 else 1.0) if layer else np.nan,
                    }
                )
    return pd.DataFrame(rows)


def scales():
    return pd.DataFrame(
        [
            {"dataset": "digits", "L": L, "seed": seed, "alpha": alpha, "s": s, "loss": 0.99 if s == 1 else 0.8}
            | {"angle": (1 + 0.1 * seed) * 1e-3 * alpha ** (L + 0.01 * seed)}
            for L in (3, 4)
            for seed in range(4)
            for alpha in (1, 0.5, 0.25)
            for s in (1, 2)
        ]
    )


def near():
    rows = [
        {
            "noise": e,
            "speed": 1.0,
            "bound": np.inf if e > 0.3 else 2.0,
            "A_1": 0.0,
            "B_0": 0.1,
            "B_1": 0.0,
            "D_1": 1e-4 * e,
        }
        for e in (0.1, 0.4, 1.0)
    ]
    return pd.DataFrame(rows)


@functools.cache
def tables():
    return {
        "polygon_runs.csv": pd.concat([polygon_runs(), deep_runs()], ignore_index=True),
        "polygon_lifts.csv": lifts(),
        "polygon_budget.csv": polygon_budget(),
        "data_speeds.csv": data_speeds(),
        "polygon_curves.csv": polygon_curves(),
        "polygon_limits.csv": pd.DataFrame([{"N": 8, "rank_one": 2**0.5 - 1, "certified": 0.500005}]),
        "escape_course.csv": course(),
        "escape_layers.csv": layers(),
        "initial_scales.csv": scales(),
        "near_rank_one.csv": near(),
    }


@functools.cache
def control_tables():
    return {"escape_course.csv": controls(), "escape_layers.csv": control_layers()}


def change(name, value, **where):
    def spoil(table):
        rows = np.logical_and.reduce([table[key] == wanted for key, wanted in where.items()])
        table.loc[rows, name] = value

    return spoil


def late(table):
    table.loc[(table["layer"] == 3) & (table["s2"] == 0.9) & (table["s1"] > 1), "s2"] = 2.0


def early(table):
    table.loc[(table["layer"] == 2) & (table["seed"] == 1) & (table["step"] > 3), "s1"] = 2.0


def one_fall(table):
    table["loss"] = np.where(table["loss"] > 2.0, 2.3, 0.01)


def risen(table):
    table.loc[table["loss"] < 2.2, "residual"] = 2.0


def slow(table):
    table["speed"] *= 0.2


def deep_loss(table):
    table.loc[table["layer"] > 2, "lost_cut"] += 1.0


def as_a_power(table):
    table["outcome"] = missed_runs(PLANTED["power"])["outcome"]


def shorter(table):
    linear = table["activation"] == "identity"
    large = linear & (table["std"] == 0.01)
    small = linear & (table["std"] == 0.001)
    losses = table["loss"].to_numpy().copy()
    table.loc[large, "loss"], table.loc[small, "loss"] = losses[small], losses[large]


def second_value_in_linear(table):
    chosen = (table["layer"] == 2) & (table["activation"] == "identity") & (table["s1"] == 3.0)
    table.loc[chosen, "s2"] = 2.0


def flattened(table):
    table["angle"] **= 0.7


def as_depth_4(table):
    chosen = table[table["L"] == 4].sort_values(["seed", "step"])
    table.loc[table["L"] == 6, "loss"] = chosen["loss"].to_numpy()


SPOILED = {
    "2-trend": ("polygon_runs.csv", change("outcome", "failure", width=32)),
    "2-narrow": ("polygon_runs.csv", change("outcome", "success", width=2, run=1)),
    "2-wide": ("polygon_runs.csv", change("outcome", "failure", width=4)),
    "2-first-layer": ("polygon_runs.csv", change("second_1", 0.5, width=8, run=0)),
    "2-second-layer": ("polygon_runs.csv", change("second_2", 0.5, width=8, run=0)),
    "1-two-saddles": ("escape_course.csv", one_fall),
    "1-one-value": ("escape_layers.csv", late),
    "1-deeper": ("escape_layers.csv", change("A_change", 0.9, layer=5)),
    "1-second-value": ("escape_layers.csv", change("s2", 0.9, layer=3)),
    "3-one-by-one": ("escape_layers.csv", late),
    "3-with-drops": ("escape_layers.csv", early),
    "4-longer-plateau": ("escape_course.csv", as_depth_4),
    "ratios-deep": ("escape_layers.csv", change("B", 0.3, layer=3)),
    "ratios-direction": ("escape_course.csv", change("residual", 0.5, L=6)),
    "ratios-falling": ("escape_course.csv", risen),
    "scales-exponent": ("initial_scales.csv", flattened),
    "depths-reached": ("polygon_runs.csv", change("speed", 0.3, L=5)),
    "depths-flat": ("polygon_runs.csv", change("speed", 0.6, L=5, run=0)),
    "depths-rank": ("polygon_runs.csv", change("second_3", 0.4, L=5)),
    "success-exponential": ("polygon_runs.csv", as_a_power),
    "budget-deep": ("escape_layers.csv", deep_loss),
    "speeds-one-neuron": ("escape_course.csv", slow),
    "speeds-optimal": ("escape_course.csv", slow),
    "controls-linear": ("escape_course.csv", shorter),
    "controls-relu": ("escape_course.csv", shorter),
    "controls-rank": ("escape_layers.csv", second_value_in_linear),
}


def with_more_seeds(story):
    """Four times the networks: of five seeds not even all would tell a share from 0.8."""
    course = story["escape_course.csv"]
    copies = [course.assign(seed=course["seed"] + 100 * copy) for copy in range(4)]
    return {**story, "escape_course.csv": pd.concat(copies, ignore_index=True)}


def story(name):
    """The tables of the study that judges a claim or draws a figure."""
    if name == "4-longer-plateau":
        return with_more_seeds(tables())
    if name.startswith("success"):
        return {"polygon_runs.csv": missed_runs(PLANTED["exponential"])}
    if name.startswith("speeds"):
        return {table: rows.replace({"L": {4: 3}}) for table, rows in tables().items() if "L" in rows}
    return control_tables() if name.startswith("controls") else tables()


PASSED_OVER = ("1-one-value", "budget-deep", "controls-linear", "controls-rank", "controls-relu")
