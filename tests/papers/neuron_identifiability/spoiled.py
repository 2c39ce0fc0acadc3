"""How the table that a claim reads is spoiled so that the claim fails."""

import pandas as pd


def column(table, name, value, **where):
    """Set a column, in place, in the rows whose other columns have these values."""
    rows = pd.Series(True, index=table.index)
    for key, wanted in where.items():
        rows &= table[key] == wanted
    table.loc[rows, name] = value


def changed(name, value, **where):
    """A function that sets a column so."""
    return lambda table: column(table, name, value, **where)


def objective(value, permutation="identity", **where):
    """A function that sets the matching objectives of a kind of permutations."""
    return changed("objective", value, permutation=permutation, **where)


def shifted_costs(by, k, layer=1):
    def spoil(table):
        table.loc[(table["k"] == k) & (table["sigma_F"] == 1) & (table["layer"] == layer), "swap_cost"] += by

    return spoil


def tilt(k, exponent):
    def spoil(table):
        rows = table["k"] == k
        table.loc[rows, "gamma_out"] = table.loc[rows, "m"].astype(float) ** exponent

    return spoil


GMM_SPOILED = {
    "near-zero": changed("swap_cost", 0.6, sigma_F=0, k=2),
    "growth": shifted_costs(-17.0, k=32),
    "cheap-swaps": changed("swap_cost", 1.0, sigma_F=1, k=2),
    "diagonal": changed("swap_cost", 0.0, k=32, i=0),
}


def sweep_spoiled(figure, large):
    return {
        f"{figure}-unbroken": objective(0.2, variant="w_0", epoch=60),
        f"{figure}-identifiable": objective(0.7, variant=large, epoch=60),
        f"{figure}-random": objective(0.5, "random", variant="w_3", epoch=60),
    }


def never_half_way(table):
    objective(0.05, variant="w_1", epoch=60)(table)
    objective(0.5, variant="w_3", epoch=60)(table)


def transition_spoiled(figure):
    return {
        f"{figure}-above-random": objective(-0.1, variant="w_0", epoch=60),
        f"{figure}-transition": never_half_way,
        f"{figure}-rise": objective(0.5, variant="w_3", epoch=60),
    }


SPOILED = {
    "fractions-size": changed("drop_mid_pp", 3.0, k=2, fixed_fraction=1 / 64),
    "fractions-fall": changed("drop_mid_pp", 20.0, k=32, fixed_fraction=1 / 4),
    "neurons-kept": changed("cheapest", 0.5, variant="w_1", itself=True),
    "neurons-partner": changed("cost_rank", 0.6, variant="w_1", itself=False),
    "neurons-control": changed("cost_rank", 0.3, variant="w_0", layer=1),
    **sweep_spoiled("3a", "w_3"),
    **sweep_spoiled("3b", "w_3"),
    **sweep_spoiled("8", "w_1"),
    **sweep_spoiled("9", "w_3"),
    **transition_spoiled("3a"),
    **transition_spoiled("3b"),
    "3c-apart": objective(0.5, variant="w_1", epoch=30),
    "3c-untrained": objective(0.5, variant="syre", epoch=0),
    "7-apart": objective(0.3, variant="w_0", epoch=30, point="hidden2"),
    "thesis-identity": objective(0.0, variant="w_3", epoch=60),
    "thesis-swap-cost": changed("swap_cost", -1.0, variant="w_3"),
    "7-sigma": objective(0.1, variant="sigma_mlp", epoch=30, point="hidden1"),
    "7-syre": objective(0.7, variant="syre", epoch=60, point="hidden1"),
    "4a-barrier": changed("drop_max_pp", 9.0, variant="w_0", aligned=False),
    "4a-others": changed("drop_max_pp", 9.0, variant="residual", aligned=False),
    "4c-others": changed("drop_max_pp", 4.0, variant="sparse", aligned=True),
    "7-residual": objective(0.1, variant="residual", epoch=30, point="hidden2"),
    "7-sparse": objective(0.2, variant="sparse", epoch=60, point="hidden1"),
    "4a-connected": changed("drop_max_pp", 4.0, variant="w_3", aligned=False),
    "4b-barrier": changed("drop_max_pp", 9.0, variant="standard", aligned=False),
    "4b-lowered": changed("drop_max_pp", 45.0, variant="w_3", aligned=False),
    "4c-aligned": changed("drop_max_pp", 4.0, variant="w_0", aligned=True),
    "4c-sigma": changed("drop_max_pp", 4.0, variant="sigma_mlp", aligned=True),
    "4c-alike": changed("drop_max_pp", 5.0, variant="w_0", aligned=True),
    "4d-alike": changed("drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-aligned": changed("drop_max_pp", 11.0, variant="w_0", aligned=True),
    "4d-lowered": changed("drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-syre": changed("drop_max_pp", 50.5, variant="syre", aligned=True),
    "20-barrier": changed("drop_mid_pp", 9.0, variant="w_0", aligned=False),
    "20-alike": changed("accuracy", 0.2, **{"variant": "w_0", "lambda": 0.5}),
    "20-higher": changed("accuracy", 0.6, **{"variant": "w_0", "lambda": 0.5}),
    "20-remaining": changed("drop_mid_pp", 9.0, variant="w_1"),
    **{f"5-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    **{f"15-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    "5-drop": changed("drop_mid_pp", 11.0, k=32, sigma_F=1),
    "thm4.6-width": changed("swap_cost", 1.0, variant="w_widths32"),
    "6-ends": changed("barrier_mid", 0.1, t=1),
    "6-trend": changed("barrier_mid", 0.0, t=8),
    "10-sparse": objective(0.3, variant="w_0_0.25"),
    "10-fixed": objective(0.5, variant="w_1_0.05"),
    "11-k2": tilt(2, -0.7),
    "11-k8": tilt(8, -0.35),
    "11-k32": tilt(32, -0.1),
    "12-positive": changed("swap_cost", 0.0, variant="syre", layer=3),
    "12-around-zero": changed("swap_cost", 2.0, variant="w_0", layer=3),
    "13-sigma": changed("swap_cost", 5.0, sigma_F=0, k=8),
    "13-growth": shifted_costs(-17.0, k=32, layer=2),
    "21-layers": changed("nu", 0.65, variant="w_0", point="hidden2", epoch=60),
    "12-ridge-positive": changed("swap_cost", 0.0, variant="syre", layer=1),
    "12-ridge-around-zero": changed("swap_cost", 1.5, variant="w_0", layer=3),
    "13-ridge-sigma": changed("swap_cost", 5.0, sigma_F=0, k=8),
    "13-ridge-growth": shifted_costs(-17.0, k=32),
    "ridge-rank": changed("spearman", 0.4, variant="syre", layer=2),
    "ridge-order": changed("swap_cost", 12.0, variant="w_0", layer=2),
    "thm4.4-share": changed("share_above", 0.06, variant="w_1", layer=2, masks="fresh"),
    "thm4.4-all": changed("deviation_max", 1.6, variant="w_1", layer=2, masks="fresh"),
    "thm4.5-bound": changed("cost", 23.0, variant="w_1", side="output", layer=2, draw=1),
    "thm4.5-leading": changed("cost", 16.0, variant="w_3", side="output"),
    "thm4.7-bound": changed("cost", -2.5, variant="w_1", side="input", layer=2, draw=1),
    "thm4.7-leading": changed("cost", 4.0, variant="w_3", side="input"),
    "thm4.8-out": changed("gamma", 0.4, variant="w_1", gap="out", layer=2, seed=1),
    "thm4.8-in": changed("gamma", 4.1, variant="w_1", gap="in", layer=2, seed=1),
    "thm4.8-growth": changed("gamma_in", 30.0, k=8, m=2048),
    "sec4.5-trade-off": changed("identity_ratio", 0.8, sigma_F=10.0),
    "thm5.1-relu-bound": changed("chord", 9.0, variant="w_3", nonlinearity="relu", scale=0.01, layer=2),
    "thm5.1-gelu-bound": changed("chord", 9.0, variant="w_3", nonlinearity="gelu", scale=0.01, layer=2),
    "thm5.1-relu-slope": changed("chord", 1e-3, nonlinearity="relu", scale=0.001),
    "thm5.1-gelu-slope": changed("chord", 1e-5, nonlinearity="gelu", scale=0.001),
    "E.6-error": changed("error_share", 1.01, variant="syre", layer=2, seed=3),
    "E.6-cost": changed("cost_share", 1.01, variant="w_1", layer=1, beta=1.0),
    "thmC.10-error": changed("error", 0.1, d=100, m=128, draw=1),
    "thmC.10-rise": changed("error", 400.0, d=100, m=128),
    "prop5.2-bound": changed("excess_max", 1e-4, variant="syre", pair=3, aligned=True, split="test"),
}
