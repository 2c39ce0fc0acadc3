"""Tables on which the paper's claims about factors hold, and how each claim's are spoiled."""

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import (
    ADAM,
    DESCENT,
    DRAWN,
    ENTRIES,
    EQUAL,
    FACTORS,
    FISTA,
    ISTA,
    LABELS,
    PROXIMAL,
    PRUNED,
    ROWS,
    UNEQUAL,
)
from symlab.papers.mirror_symmetry.small.plasticity import BIAS, HADAMARD, KEPT, NOISE, SGD, SKIP, SYRE, VANILLA

from ..spoiling import change, plus

NETWORK_TASKS, SPARSE = "mirror_network_tasks.csv", "mirror_sparse.csv"
FACTOR, DEAD, TASKS = "mirror_factors.csv", "mirror_dead.csv", "mirror_plasticity.csv"
ATTENTION = "mirror_attention.csv"
COURSE = "mirror_solvers.csv"
SHARES = {VANILLA: 0.0, SKIP: 0.6, HADAMARD: 0.5, KEPT: 0.5, BIAS: 0.0, "decay": 0.8, SYRE: 0.0, NOISE: 0.0, SGD: 0.6}
"""Of each variant what is dead at last."""


def factors():
    rows = []
    for labels in LABELS:
        for seed in range(3):
            for step in (250, 1000):
                for gamma, rank in ((0.0, 20), (0.3, 14), (1.0, 7), (3.0, 0)):
                    row = {"labels": labels, "seed": seed, "step": step, "gamma": gamma, "lr": 0.01, "d": 20}
                    row |= {"rank": rank, "convex": rank, "zero_rank": min(20, rank + 1)}
                    rows.append(row | {"above": max(rank - 1, 0), "above_band": min(20, rank + 2)})
    return pd.DataFrame(rows)


def keys_of_variants():
    for name in SHARES:
        for noise in (1e-6, 1e-4) if name == NOISE else (0.0,):
            yield {"variant": name, "noise": noise, "lr": 0.1 if name == SGD else 0.01}


def dead():
    rows = []
    for key in keys_of_variants():
        for seed in range(3):
            for task in range(1, 11):
                parameters = {VANILLA: 100, SKIP: 300}.get(key["variant"], 200)
                count = [int(parameters * SHARES[key["variant"]] * max(at, 0) / 9) for at in (task - 1, task - 2)]
                row = key | {"seed": seed, "task": task, "parameters": parameters, "dead": count[0], "before": count[1]}
                row |= {"kept": count[1]}
                rows += [row | {"threshold": threshold} for threshold in (1e-6, 0.0)]
    return pd.DataFrame(rows)


def tasks():
    rows = []
    for key in keys_of_variants():
        for seed in range(3):
            for task in range(1, 11):
                loss = 0.03 * (1 + 0.1 * seed) * (1 + task * (SHARES[key["variant"]] + (key["variant"] == BIAS)))
                rows.append(key | {"seed": seed, "task": task, "loss": loss})
    return pd.DataFrame(rows)


def network_tasks():
    """Products learn less and less, remedies as much as vanilla networks."""
    return pd.DataFrame(
        [
            {"variant": name, "seed": seed, "task": task, "dataset": "mnist"}
            | {"dead": 0.1 + 0.01 * seed + 0.1 * (name == HADAMARD) * task}
            | {"loss": 0.1 * (1 + 0.1 * seed) * (1 + (name == HADAMARD) * task)}
            | {"accuracy": 0.95 + 0.001 * seed - 0.1 * (name == HADAMARD) * task}
            for name in (VANILLA, HADAMARD, NOISE, BIAS, "decay", SYRE, SKIP)
            for seed in range(3)
            for task in (1, 2, 3)
        ]
    )


def attention():
    """Steps of half the length follow the prediction; those of whole length lag it by a twentieth."""
    rows = []
    for layers in (1, 2):
        for optimizer, lr in ((ADAM, 0.1), (DESCENT, 0.1), (DESCENT, 0.05)):
            for decay in (0.01, 0.1, 1.0):
                for seed in range(3):
                    for layer in range(1, layers + 1):
                        for time in range(11):
                            rank = round(20 * (1 - (0.4 + 0.2 * np.log10(decay * 100)) * time / 10)) - 4 * (layer - 1)
                            row = {
                                "layers": layers,
                                "layer": layer,
                                "optimizer": optimizer,
                                "decay": decay,
                                "seed": seed,
                            }
                            row |= {"lr": lr, "step": round(time / lr), "time": float(time)}
                            row |= {"rank_query": rank, "rank_key": rank, "apart_key": 0.5 / (1 + time + seed)}
                            lag = 0.95 if lr == 0.1 else 1
                            rows.append(row | {"loss": 0.1, "unbalance": 5 * np.exp(-2 * decay * time * lag)})
    return pd.DataFrame(rows)


def course():
    rows = []
    for problem in ("lasso", "group lasso", "nuclear norm"):
        starts = (UNEQUAL, EQUAL, DRAWN) if problem == "lasso" else (UNEQUAL,)
        for method, start in [(FACTORS, each) for each in starts] + [(m, UNEQUAL) for m in (ISTA, FISTA)]:
            for seed in range(3):
                for strength in (0.1, 0.3):
                    for step in (0, 1, 10, 100):
                        row = {"problem": problem, "method": method, "start": start, "seed": seed, "strength": strength}
                        rows.append(row | {"step": step, "gap": 10.0 ** (-step / 10)})
    return pd.DataFrame(rows)


def accuracies(method, strength, share, seed):
    """With a share set to 0, of a method at a strength of which 0.01 is the best in training.

    A weaker penalty leaves what is set to 0 large, that of factors larger: they fall to 0 exponentially, not in a step.
    A stronger one takes from what is left, of factors more: they do not come back from 0. Test samples would choose it.
    """
    weak, strong = ((60, 4), (40, 2))[method == PROXIMAL]
    lost = weak * share**4 * (strength < 0.01) if method != PRUNED else 0
    strong *= strength > 0.01 and method != PRUNED
    test = 95 - 9 * share**4 * (method == PRUNED) + 0.1 * seed + 0.05 * seed * (method == PROXIMAL)
    return {"train": 99 - lost - strong, "test": test - lost + strong / 2}


def sparse():
    """Factors as good as proximal steps and better than pruning, at the best of three strengths."""
    return pd.DataFrame(
        [
            {"dataset": "digits", "structure": structure, "seed": seed, "method": method, "strength": strength}
            | {"repeat": repeat, "share": share, "vanished": 0.0, **accuracies(method, strength, share, seed)}
            for repeat in range(2)
            for structure in (ENTRIES, ROWS)
            for seed in range(3)
            for method in (FACTORS, PROXIMAL, PRUNED)
            for share in (0.0, 0.5, 0.9)
            for strength in ((share,) if method == PRUNED else (0.001, 0.01, 0.1))
        ]
    )


def tables():
    return {
        FACTOR: factors(),
        DEAD: dead(),
        TASKS: tasks(),
        ATTENTION: attention(),
        NETWORK_TASKS: network_tasks(),
        COURSE: course(),
        SPARSE: sparse(),
    }


SPOILED = {
    "8-staircase": (FACTOR, lambda t: t.assign(rank=20 - t["rank"])),
    "8-full-range": (FACTOR, lambda t: t.assign(rank=t["rank"] // 2)),
    "8-rank": (FACTOR, lambda t: t.assign(convex=t["rank"] + 2)),
    "8-band": (FACTOR, lambda t: t.assign(above_band=t["zero_rank"] - 1)),
    "4-symmetry": (DEAD, change("dead", 0, variant=HADAMARD)),
    "4-steady": (DEAD, lambda t: t.assign(dead=t["parameters"] - t["dead"])),
    "4-noise": (DEAD, change("dead", 20, noise=1e-4)),
    "4-least-noise": (DEAD, change("dead", 20, noise=1e-6)),
    "4-bias": (DEAD, change("dead", 20, variant=BIAS)),
    "4-bias-and-decay": (DEAD, change("dead", 20, variant=SYRE)),
    "4-contained": (DEAD, lambda t: t.assign(kept=t["before"] // 2)),
    "4-loss": (TASKS, lambda t: t.assign(loss=t["loss"].where(t["variant"] == VANILLA, 0.03 / t["task"]))),
    "tasks-loss": (NETWORK_TASKS, change("loss", lambda rows: 0.1 / rows["task"], variant=HADAMARD)),
    "tasks-dead": (NETWORK_TASKS, change("dead", 0.0, variant=HADAMARD)),
    "tasks-remedies": (NETWORK_TASKS, change("accuracy", 0.8, variant=BIAS)),
    "9-decay": (ATTENTION, lambda t: t.assign(rank_query=100 * t["decay"])),
    "9-together": (ATTENTION, lambda t: t.assign(rank_key=t["rank_query"] + 3)),
    "9-values": (ATTENTION, lambda t: t.assign(apart_key=0.3 + 0.1 / (1 + t["time"]))),
    "9-balance": (ATTENTION, lambda t: t.assign(unbalance=t["unbalance"] ** 0.5)),
    "9-step": (ATTENTION, lambda t: t.assign(unbalance=t["unbalance"] ** (t["lr"] / 0.1))),
    "10-decay": (ATTENTION, lambda t: t.assign(rank_query=100 * t["decay"])),
    "10-together": (ATTENTION, lambda t: t.assign(rank_key=t["rank_query"] + 3)),
    "10-values": (ATTENTION, lambda t: t.assign(apart_key=0.3 + 0.1 / (1 + t["time"]))),
    "10-balance": (ATTENTION, lambda t: t.assign(unbalance=t["unbalance"] ** 0.5)),
    "10-step": (ATTENTION, lambda t: t.assign(unbalance=t["unbalance"] ** (t["lr"] / 0.1))),
    "10-layers": (ATTENTION, lambda t: t.assign(rank_key=t["rank_query"] + 4)),
    "sparse-proximal": (SPARSE, plus("test", -3, method=FACTORS)),
    "sparse-pruned": (SPARSE, plus("test", -20, method=FACTORS)),
    "sparse-repeated": (SPARSE, lambda t: t.assign(test=t["test"] - 5 * (t["seed"] == 2) * t["repeat"])),
    "solvers-gap": (COURSE, change("gap", 1e-3)),
    "solvers-steps": (COURSE, plus("gap", 2e-4, method=FACTORS)),
}
