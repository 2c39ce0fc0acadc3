"""Data that the theory itself gives, with a run's own numbers of units, sizes and noise: on it claims must hold."""

import functools
import math

import numpy as np
import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.deep.network_mirrors import Point
from symlab.papers.mirror_symmetry.settings import LABELS, Mirrors
from symlab.papers.mirror_symmetry.small.attention import VANISHED
from symlab.papers.mirror_symmetry.small.on_mirrors import NEURONS, ROTATION, SGD, Run, _descend, descend_from_mirrors
from symlab.papers.mirror_symmetry.small.small_networks import _hessian
from symlab.papers.mirror_symmetry.small.theorem_1 import theorem_1_in_numbers
from symlab.symmetries.mirrors import Mirror

from . import story_factors, story_networks, story_online
from .story_networks import key


def once(simulate):
    """A simulation of a number, kept for the claims that are judged on the same draw."""
    kept = functools.lru_cache(maxsize=16)(lambda draw: simulate(np.random.default_rng(draw)))
    return lambda generator: {name: rows.copy() for name, rows in kept(int(generator.integers(2**31))).items()}


def _job(generator):
    return Job(f"draw {generator.integers(2**31)}")


@once
def theorem(generator):
    """Theorem 1's numbers on other losses in closed form."""
    return {"mirror_theorem.csv": theorem_1_in_numbers(_job(generator))}


@once
def hessian(generator):
    """The Hessian of another tanh network late in its descent along mirrors."""
    return {"mirror_hessian.csv": _hessian(_job(generator))}


@once
def decays(generator, seeds=5, samples=400, d=8):
    """Minima of tanh networks whose neurons have kept the directions in which they left 0: u_i = w_i = a c_i."""
    rows = []
    for seed in range(seeds):
        x = generator.normal(size=samples)
        y = x + 0.5 * generator.normal(size=samples)
        c = generator.normal(size=d)
        c /= np.linalg.norm(c)
        for ratio in (0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.02, 1.05, 1.1):
            gamma = ratio * abs(np.mean(x * y)) / 2
            low, high = 0.0, 3.0
            for _ in range(60):
                a = (low + high) / 2
                f = np.tanh(a * c[:, None] * x)
                r = a * c @ f - y
                slope = np.mean(r * (c @ f + a * c**2 @ ((1 - f * f) * x))) + 4 * gamma * a
                low, high = (low, a) if slope > 0 else (a, high)
            rows.append({"seed": seed, "gamma_over_critical": ratio, "norm": math.sqrt(2) * low})
    return {"mirror_decay.csv": pd.DataFrame(rows)}


@once
def optimizers(generator):
    """Other losses, starts and roundings, in as many steps as rounding needs not to grow."""
    return {"mirror_optimizers.csv": descend_from_mirrors(200, _job(generator))}


@once
def dropped(generator, steps=3000):
    """Equal neurons of another loss under dropout, for the preset's steps."""
    run = Run(NEURONS, SGD, dropped=0.1)
    rows = pd.DataFrame(_descend(run, steps, _job(generator)))
    return {"mirror_optimizers.csv": rows.assign(mirror=run.mirror, optimizer=run.name)}


@once
def rounding(generator, steps=3000):
    """A distance that linear order multiplies and rounding adds to, beside one without rounding."""
    rows = []
    for name, epsilon in (("SGD", 1e-16), ("SGD, momentum 0.9", 1e-16), ("SGD, single precision", 1e-7)):
        factors = 1 + 0.02 * (1 + 0.3 * generator.normal(size=steps))
        off, tangent = epsilon, 1.0
        for step, factor in enumerate(factors):
            if step % 10 == 0:
                rows.append({"mirror": ROTATION, "optimizer": name, "step": step, "off": off, "tangent": tangent})
            off = min(abs(off * factor + epsilon * generator.normal()), 1.0)
            tangent *= factor
    return {"mirror_optimizers.csv": pd.DataFrame(rows)}


@once
def mirrors_of_networks(generator):
    """Theorem 1 at four drawn networks of a hidden layer of relu, at one pair of neurons each."""
    rows = []
    for seed in range(4):
        drawn = torch.Generator().manual_seed(int(generator.integers(2**31)))
        x = torch.randn(64, 8, generator=drawn, dtype=torch.float64)
        y = torch.randint(4, (64,), generator=drawn)
        module = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4)).double()
        state = {
            name: torch.randn(value.shape, generator=drawn, dtype=torch.float64) / value.shape[-1] ** 0.5
            for name, value in module.named_parameters()
        }
        order = torch.tensor([1, 0, *range(2, 12)])

        def reflect(of, order=order):
            axes = {"0.weight": 0, "0.bias": 0, "2.weight": 1}
            return {n: t.index_select(axes[n], order) if n in axes else t for n, t in of.items()}

        point = Point(module, x, y, "classification", Mirror("0 = 1", reflect), Mirrors(steps=25), drawn, {})
        at = {**key(), "seed": seed, "mirror": "neurons", "group": "hidden1", "a": 0, "b": 1, "samples": 64}
        rows += [{**at, **found} for found in point.rows(state)]
    return {"network_mirrors.csv": pd.DataFrame(rows)}


@once
def plain_and_products(generator, d=200, sigma=2.0, seeds=12):
    """Plain coefficients scatter about 1/d for ever, each measurement many relaxation times after the last."""
    tables = story_online.sparsity_tables()
    rates = np.array([0.001492, 0.001823, 0.002154, 0.002485, 0.002815, 0.003146, 0.003477, 0.003808, 0.004138])
    steps = (50_000, 63_000, 79_000, 100_000)
    law = pd.DataFrame(story_online.law_rows(0, d, sigma, 1.0, rates, steps, 1))
    at = {"grid": 0, "d": d, "sigma": sigma, "batch": 1.0, "model": "plain", "diverged": False}
    rows = []
    for lr in rates:
        variance = lr * sigma**2 / (2 - lr * (d + 2))
        theta = 1 / d + math.sqrt(variance) * generator.normal(size=(seeds, len(steps), d))
        medians = np.median(np.log(np.abs(theta)), axis=2)
        rows += [
            {**at, "lr": lr, "step": step, "seed": seed, "median_log": medians[seed, place], "excess": 0.0}
            for seed in range(seeds)
            for place, step in enumerate(steps)
        ]
    products = story_online.measured_rows(law.to_dict("records"), plain=False)
    return {**tables, story_online.SPARSITY: pd.DataFrame([*rows, *products]), story_online.LAW: law}


def second_order(generator):
    """Cells in which Eq. 5 is exact."""
    tables = story_online.simulate_edges(generator)
    rows = tables[story_online.EDGES]
    return {story_online.EDGES: rows.assign(second_order=rows["growth"])}


def adam(generator, d=200, seeds=3):
    """Of products that Adam takes below a threshold as many as chance has it where SGD takes nearly all."""
    rows = story_online.adam_tables()["mirror_adam.csv"]
    return {"mirror_adam.csv": rows.assign(below_6=generator.binomial(d, rows["below_6"]) / d)}


def tasks(generator, seeds=5, count=10):
    """Of each variant as many parameters die as chance has it at the story's shares, in the preset's draws."""
    tables = story_factors.tables()
    dead = pd.concat([tables[story_factors.DEAD].query("seed == 0").assign(seed=seed) for seed in range(seeds)])
    share = (dead["dead"] / dead["parameters"]).to_numpy()
    drawn = generator.binomial(dead["parameters"], share)
    before = dead["before"].to_numpy()
    coordinates = np.where(dead["dead_coordinates"] > 0, drawn // 2, 0)
    dead = dead.assign(dead=drawn, kept=generator.binomial(before, 0.999), dead_coordinates=coordinates)
    ended = pd.concat([tables[story_factors.TASKS].query("seed == 0").assign(seed=seed) for seed in range(seeds)])
    ended = ended.assign(loss=ended["loss"] * np.exp(0.15 * generator.normal(size=len(ended))))
    return {story_factors.DEAD: dead, story_factors.TASKS: ended}


def labellings(generator, seeds=4, samples=600):
    """Shares and accuracies of four seeds, with the scatter of so many parameters and images."""
    rows = story_factors.network_tasks()
    rows = pd.concat([rows.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    learned = np.where(rows["variant"] == "Hadamard", rows["accuracy"], 0.998)
    rows["accuracy"] = generator.binomial(samples, learned) / samples
    rows["dead"] = rows["dead"] + 0.05 * generator.normal(size=len(rows))
    rows["loss"] *= np.exp(0.1 * generator.normal(size=len(rows)))
    return {story_factors.NETWORK_TASKS: rows}


@once
def factors(generator, seeds=5, d=50, n=200, lr=0.01, steps=6000):
    """Modes of targets and inputs with the same directions: gradient descent of each product by itself.

    Singular values of A and of S as drawn matrices have them; the minimum is sigma(A) - gamma / sigma(S).
    """
    gammas = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
    rows = []
    for seed in range(seeds):
        a, S = (generator.normal(size=(d, size)) for size in (d, n))
        spectra = np.linalg.svd(a / math.sqrt(d), compute_uv=False), np.ones(d)
        s = np.linalg.svd(S / math.sqrt(n), compute_uv=False) ** 2
        # An entry of the product of two matrices of entries of variance 1/d.
        start, shared = np.abs(generator.normal(size=d)) / math.sqrt(d), np.exp(0.5 * generator.normal(size=d))
        for labels, sigma in zip(LABELS, spectra, strict=True):
            sizes = generator.permutation(s)
            u, w = (np.repeat((np.sqrt(start) * by)[None], len(gammas), 0) for by in (shared, 1 / shared))
            best = np.maximum(sigma - gammas[:, None] / sizes, 0)
            critical = sigma * sizes
            for step in range(1, steps + 1):
                slope = 2 * sizes * (u * w - sigma)
                u, w = u - lr * (slope * w + 2 * gammas[:, None] * u), w - lr * (slope * u + 2 * gammas[:, None] * w)
                if step not in (steps // 8, steps // 4, steps // 2, steps):
                    continue
                theta = u * w
                band = np.log(1e6) / (4 * lr * step)
                top, gaps = theta.max(1), np.abs(np.sort(theta) - np.sort(best)).max(1)
                for place, gamma in enumerate(gammas):
                    row = {"labels": labels, "seed": seed, "gamma": gamma, "step": step, "lr": lr, "d": d}
                    row["zero_rank"] = int((theta[place] > 1e-6).sum())
                    row["rank"] = int((theta[place] > max(1e-3 * top[place], 1e-6)).sum())
                    row["convex"] = int((best[place] > 1e-6).sum())
                    row["gap"] = gaps[place] / best[place].max() if row["convex"] else math.nan
                    row |= {"above": int((critical > gamma).sum()), "above_band": int((critical > gamma - band).sum())}
                    rows.append(row)
    return {story_factors.FACTOR: pd.DataFrame(rows)}


@once
def attention(generator, seeds=3, size=21):
    """Query and key whose distance and size fall by decay, but for what is learned: ranks as of their spectra."""
    rows = []
    for layers in (1, 2):
        for layer in range(1, layers + 1):
            for decay in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0):
                for seed in range(seeds):
                    spectra = [np.linalg.svd(generator.normal(size=(size, size)), compute_uv=False) for _ in range(2)]
                    query, key_ = (each / math.sqrt(size) for each in spectra)
                    held = np.maximum(2 - layer * 3 * decay - np.linspace(0, 2, size), 0)
                    for time in np.linspace(0, 40, 41):
                        left = math.exp(-2 * decay * time)
                        q, k = (np.sqrt(each**2 * left + held**2 * (1 - left)) for each in (query, key_))
                        row = {"layers": layers, "layer": layer, "decay": decay, "seed": seed, "time": time}
                        row |= {"step": int(200 * time), "loss": 0.1, "unbalance": 5 * left}
                        row |= {
                            f"rank_{n}": int((v > 1e-2 * v[0]).sum() * (v[0] > VANISHED))
                            for n, v in (("query", q), ("key", k))
                        }
                        row["apart_key"] = np.linalg.norm(q - k) / np.linalg.norm(q)
                        rows += [{**row, "optimizer": name} for name in ("Adam", "gradient descent")]
    return {story_factors.ATTENTION: pd.DataFrame(rows)}


@once
def solvers(generator, seeds=5, d=50, n=100, noise=0.5, time=345.0):
    """Coefficients of an orthogonal design, each by itself a logistic curve: theta' = 4 theta (|b| - alpha - theta).

    ``time`` is rate times steps of the preset's last step.
    """
    rows = []
    steps = np.unique(np.r_[0, np.logspace(0, np.log10(20_000), 52).round()]).astype(int)
    for seed in range(seeds):
        truth = np.where(np.arange(d) < d // 5, 1.0, 0.0)
        b = np.abs(truth + noise / math.sqrt(n) * generator.normal(size=d))
        start = np.abs(generator.normal(size=d)) / math.sqrt(d)
        for strength in (0.03, 0.1, 0.3):
            r = b - strength * b.max()
            best = np.maximum(r, 0)
            for step in steps:
                t = time * step / 20_000
                theta = r / (1 + (r / start - 1) * np.exp(-4 * r * t))
                gap = np.sum((theta - r) ** 2 - (best - r) ** 2)
                found, wanted = theta > 1e-6, best > 1e-6
                row = {"problem": "lasso", "start": "unequal", "seed": seed, "strength": strength, "step": step}
                f1 = 2 * np.sum(found & wanted) / max(found.sum() + wanted.sum(), 1)
                rows.append({**row, "method": "factors", "gap": gap, "f1": f1})
    return {story_factors.COURSE: pd.DataFrame(rows)}


def signs(generator, seeds=5):
    """Half of a minimum's coefficients start with the wrong sign."""
    rows = [
        {"start": start, "seed": seed, "strength": strength, "wrong": wrong, "righted": wrong * (start != "equal")}
        for start in ("unequal", "random", "equal")
        for seed in range(seeds)
        for strength in (0.03, 0.1, 0.3)
        for wrong in [int(generator.binomial(20, 0.5))]
    ]
    return {story_factors.SIGNS: pd.DataFrame(rows)}


def alike(generator, seeds=4, neurons=128):
    """Blocks of neurons by decay: how many of the pairs of so many neurons correlate and merge, by chance."""
    pairs = neurons * (neurons - 1) // 2
    rows = story_networks.homogeneity()
    rows = pd.concat([rows.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    scatter = np.exp(0.15 * generator.normal(size=len(rows)))
    rows["positive"] = generator.binomial(pairs, np.clip(rows["positive"] * scatter, 0, 1)) / pairs
    rows["merged"] = generator.poisson(rows["merged"])
    rows["negative"] = generator.binomial(pairs, rows["positive"] / 30) / pairs
    rows["participation"] = 11.3 - 100 * rows["positive"] + 0.3 * generator.normal(size=len(rows))
    return {"homogeneity.csv": rows}


def bytes_held(generator):
    """Products hold two factors with gradients and momentum, and what they compose; activations are the same."""
    own = float(generator.uniform(1e6, 1e8))
    rows = []
    for batch in (1, 128):
        at = {"batch": batch, "activations": 40 * own / 100 * batch}
        rows.append({"scheme": "standard", **at, **dict.fromkeys(("parameters", "gradients", "momentum"), own)})
        more = {"parameters": 2 * own, "gradients": 2 * own, "momentum": 2 * own}
        rows.append({"scheme": "hadamard", **at, **more, "activations": at["activations"] + own})
    return {"mirror_memory.csv": pd.DataFrame(rows)}


def accuracies(generator, seeds=4, images=2500):
    """Networks of every kind as accurate, on as many test images; of products that have vanished nothing is lost."""
    rows = story_networks.pruned()
    rows = pd.concat([rows.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    own = rows.groupby(["variant", "seed"], sort=False).ngroup()
    scatter = 0.3 * generator.normal(size=own.max() + 1) + 100 * (
        generator.binomial(images, 0.965, own.max() + 1) / images - 0.965
    )
    rows["accuracy"] += scatter[own]
    sizes = story_networks.magnitudes()
    sizes = pd.concat([sizes.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    return {"magnitudes.csv": sizes, "pruned.csv": rows}


def vanishing(generator, seeds=4, parameters=100_000, budget=3.95):
    """Products that a decay alone takes down from where a layer of 784 inputs starts."""
    rows = story_networks.magnitudes()
    rows = rows[(rows["scheme"] == "hadamard") & (rows["trained_as"] == "products")].query("seed == 0")
    drawn = []
    for seed in range(seeds):
        start = generator.uniform(0, 784**-0.5, size=parameters)
        for decay, of in rows.groupby("weight_decay"):
            B = budget * (decay > 0)
            for threshold in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
                for epoch in (0, 10):
                    below = np.mean(start * math.exp(-2 * B * epoch / 10) < threshold)
                    at = {**of.iloc[0].to_dict(), "seed": seed, "epoch": epoch, "threshold": threshold, "budget": B}
                    drawn.append({**at, "share": below})
    return {"magnitudes.csv": pd.DataFrame(drawn), "pruned.csv": story_networks.pruned()}


def removed(generator, seeds=4):
    """Fixed weights that leave a tenth of what decay makes alike."""
    rows = alike(generator, seeds)["homogeneity.csv"]
    return {"homogeneity.csv": rows}


SIMULATIONS = {
    **dict.fromkeys(("2-blocks", "2-control"), hessian),
    **dict.fromkeys(("2-gamma-0", "2-gamma-1", "2-eq-2", "2-eq-6", "2-eq-6-without", "2-no-reflection"), theorem),
    "2-threshold": decays,
    **dict.fromkeys(("5-stays", "5-equal", "5-adam"), optimizers),
    "5-dropout": dropped,
    "5-rounding": rounding,
    **{
        f"thm1-{name}": mirrors_of_networks
        for name in ("gradient", "gradient-off", "hessian", "stays", "growth", "second-order")
    },
    "3a-plain": plain_and_products,
    "edges-second": second_order,
    "adam-sparse": adam,
    **{
        f"4-{name}": tasks
        for name in (
            "symmetry",
            "steady",
            "noise",
            "least-noise",
            "bias",
            "bias-and-decay",
            "contained",
            "loss",
            "skip",
        )
    },
    **{f"tasks-{name}": labellings for name in ("loss", "dead", "remedies")},
    **{f"8-{name}": factors for name in ("staircase", "values", "band")},
    **{f"{figure}-{name}": attention for figure in (9, 10) for name in ("decay", "values", "balance")},
    **dict.fromkeys(("solvers-gap", "solvers-support"), solvers),
    **dict.fromkeys(("solvers-signs", "solvers-trap"), signs),
    **{f"6-{name}": alike for name in ("correlated", "merged", "participation", "sign", "blocks")},
    **dict.fromkeys(("7-memory", "7-memory-large"), bytes_held),
    **{f"7-{name}": accuracies for name in ("zeroed", "sparse", "pruned")},
    "budget-least": vanishing,
    "removed-fewer": removed,
}
