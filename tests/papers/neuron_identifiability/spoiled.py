"""How the table that a claim reads is spoiled so that the claim fails."""

from ..spoiling import change, plus


def column(table, name, value, **where):
    """Set a column, in place, in the rows whose other columns have these values."""
    change(name, value, **where)(table)


def objective(value, permutation="identity", **where):
    """A function that sets the matching objectives of a kind of permutations."""
    return change("objective", value, permutation=permutation, **where)


def shifted_costs(by, k, layer=1):
    return plus("swap_cost", by, k=k, sigma_F=1, layer=layer)


def tilt(k, exponent):
    return change("gamma_out", lambda rows: rows["m"].astype(float) ** exponent, k=k)


GMM_SPOILED = {
    "near-zero": change("swap_cost", 0.6, sigma_F=0, k=2),
    "growth": shifted_costs(-17.0, k=32),
    "cheap-swaps": change("swap_cost", 1.0, sigma_F=1, k=2),
    "diagonal": change("swap_cost", 0.0, k=32, i=0),
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
    "fractions-size": change("drop_mid_pp", 3.0, k=2, fixed_fraction=1 / 64),
    "fractions-fall": change("drop_mid_pp", 20.0, k=32, fixed_fraction=1 / 4),
    "neurons-kept": change("cheapest", 0.5, variant="w_1", itself=True),
    "neurons-partner": change("cost_rank", 0.6, variant="w_1", itself=False),
    "neurons-control": change("cost_rank", 0.3, variant="w_0", layer=1),
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
    "thesis-swap-cost": change("swap_cost", -1.0, variant="w_3"),
    "7-sigma": objective(0.1, variant="sigma_mlp", epoch=30, point="hidden1"),
    "7-syre": objective(0.7, variant="syre", epoch=60, point="hidden1"),
    "4a-barrier": change("drop_max_pp", 9.0, variant="w_0", aligned=False),
    "4a-others": change("drop_max_pp", 9.0, variant="residual", aligned=False),
    "4c-others": change("drop_max_pp", 4.0, variant="sparse", aligned=True),
    "7-residual": objective(0.1, variant="residual", epoch=30, point="hidden2"),
    "7-sparse": objective(0.2, variant="sparse", epoch=60, point="hidden1"),
    "4a-connected": change("drop_max_pp", 4.0, variant="w_3", aligned=False),
    "4b-barrier": change("drop_max_pp", 9.0, variant="standard", aligned=False),
    "4b-lowered": change("drop_max_pp", 45.0, variant="w_3", aligned=False),
    "4c-aligned": change("drop_max_pp", 4.0, variant="w_0", aligned=True),
    "4c-sigma": change("drop_max_pp", 4.0, variant="sigma_mlp", aligned=True),
    "4c-alike": change("drop_max_pp", 5.0, variant="w_0", aligned=True),
    "4d-alike": change("drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-aligned": change("drop_max_pp", 11.0, variant="w_0", aligned=True),
    "4d-lowered": change("drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-syre": change("drop_max_pp", 50.5, variant="syre", aligned=True),
    "20-barrier": change("drop_mid_pp", 9.0, variant="w_0", aligned=False),
    "20-alike": change("accuracy", 0.2, **{"variant": "w_0", "lambda": 0.5}),
    "20-higher": change("accuracy", 0.6, **{"variant": "w_0", "lambda": 0.5}),
    "20-remaining": change("drop_mid_pp", 9.0, variant="w_1"),
    **{f"5-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    **{f"15-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    "5-drop": change("drop_mid_pp", 11.0, k=32, sigma_F=1),
    "thm4.6-width": change("swap_cost", 1.0, variant="w_widths32"),
    "6-ends": change("barrier_mid", 0.1, t=1),
    "6-trend": change("barrier_mid", 0.0, t=8),
    "10-sparse": objective(0.3, variant="w_0_0.25"),
    "10-fixed": objective(0.5, variant="w_1_0.05"),
    "11-k2": tilt(2, -0.7),
    "11-k8": tilt(8, -0.35),
    "11-k32": tilt(32, -0.1),
    "12-positive": change("swap_cost", 0.0, variant="syre", layer=3),
    "12-around-zero": change("swap_cost", 2.0, variant="w_0", layer=3),
    "13-sigma": change("swap_cost", 5.0, sigma_F=0, k=8),
    "13-growth": shifted_costs(-17.0, k=32, layer=2),
    "21-layers": change("nu", 0.65, variant="w_0", point="hidden2", epoch=60),
    "12-ridge-positive": change("swap_cost", 0.0, variant="syre", layer=1),
    "12-ridge-around-zero": change("swap_cost", 1.5, variant="w_0", layer=3),
    "13-ridge-sigma": change("swap_cost", 5.0, sigma_F=0, k=8),
    "13-ridge-growth": shifted_costs(-17.0, k=32),
    "ridge-rank": change("spearman", 0.4, variant="syre", layer=2),
    "ridge-order": change("swap_cost", 12.0, variant="w_0", layer=2),
    "thm4.4-share": change("share_above", 0.06, variant="w_1", layer=2, masks="fresh"),
    "thm4.4-all": change("deviation_max", 1.6, variant="w_1", layer=2, masks="fresh"),
    "thm4.5-bound": change("cost", 23.0, variant="w_1", side="output", layer=2, draw=1),
    "thm4.5-leading": change("cost", 16.0, variant="w_3", side="output"),
    "thm4.7-bound": change("cost", -2.5, variant="w_1", side="input", layer=2, draw=1),
    "thm4.7-leading": change("cost", 4.0, variant="w_3", side="input"),
    "thm4.8-out": change("gamma", 0.4, variant="w_1", gap="out", layer=2, seed=1),
    "thm4.8-in": change("gamma", 4.1, variant="w_1", gap="in", layer=2, seed=1),
    "thm4.8-growth": change("gamma_in", 30.0, k=8, m=2048),
    "sec4.5-trade-off": change("identity_ratio", 0.8, sigma_F=10.0),
    "thm5.1-relu-bound": change("chord", 9.0, variant="w_3", nonlinearity="relu", scale=0.01, layer=2),
    "thm5.1-gelu-bound": change("chord", 9.0, variant="w_3", nonlinearity="gelu", scale=0.01, layer=2),
    "thm5.1-relu-slope": change("chord", 1e-3, nonlinearity="relu", scale=0.001),
    "thm5.1-gelu-slope": change("chord", 1e-5, nonlinearity="gelu", scale=0.001),
    "E.6-error": change("error_share", 1.01, variant="syre", layer=2, seed=3),
    "E.6-cost": change("cost_share", 1.01, variant="w_1", layer=1, beta=1.0),
    "thmC.10-error": change("error", 0.1, d=100, m=128, draw=1),
    "thmC.10-rise": change("error", 400.0, d=100, m=128),
    "prop5.2-bound": change("excess_max", 1e-4, variant="syre", pair=3, aligned=True, split="test"),
}
