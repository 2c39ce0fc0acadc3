"""Data that the theory itself gives, with a run's own numbers of units, sizes and noise: on it claims must hold."""

import math

import numpy as np
import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.deep.network_mirrors import Point
from symlab.papers.mirror_symmetry.settings import LABELS, Mirrors
from symlab.papers.mirror_symmetry.small.attention import VANISHED
from symlab.papers.mirror_symmetry.small.on_mirrors import NEURONS, ROTATION, SGD, Run, _descend, descend_from_mirrors
from symlab.papers.mirror_symmetry.small.small_networks import _hessian, theorem_1_in_numbers
from symlab.symmetries.mirrors import Mirror

from . import simulated_online, story_factors, story_networks
from .simulated_online import once
from .story_networks import key


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


def tasks(generator, seeds=5, count=10):
    """Of each variant as many parameters die as chance has it at the story's shares, in the preset's draws."""
    tables = story_factors.tables()
    dead = pd.concat([tables[story_factors.DEAD].query("seed == 0").assign(seed=seed) for seed in range(seeds)])
    share = (dead["dead"] / dead["parameters"]).to_numpy()
    drawn = generator.binomial(dead["parameters"], share)
    before = dead["before"].to_numpy()
    dead = dead.assign(dead=drawn, kept=generator.binomial(before, 0.999))
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
def factors(generator, seeds=8, d=50, n=200, lr=0.01, steps=6000):
    """Modes of targets and inputs with the same directions: gradient descent of each product by itself.

    Singular values of A and of S as drawn matrices have them; the minimum is sigma(A) - gamma / sigma(S). Eight seeds,
    since five do not always know the mean difference of ranks to the half that is asked.
    """
    gammas = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
    at, drawn = [], []
    for seed in range(seeds):
        a, S = (generator.normal(size=(d, size)) for size in (d, n))
        s = np.linalg.svd(S / math.sqrt(n), compute_uv=False) ** 2
        # An entry of the product of two matrices of entries of variance 1/d.
        start, shared = np.abs(generator.normal(size=d)) / math.sqrt(d), np.exp(0.5 * generator.normal(size=d))
        for labels, sigma in zip(LABELS, (np.linalg.svd(a / math.sqrt(d), compute_uv=False), np.ones(d)), strict=True):
            at += [{"labels": labels, "seed": seed, "gamma": gamma, "lr": lr, "d": d} for gamma in gammas]
            one = sigma, generator.permutation(s), np.sqrt(start) * shared, np.sqrt(start) / shared
            drawn += [one] * len(gammas)
    sigma, sizes, u, w = map(np.stack, zip(*drawn, strict=True))
    decay = np.tile(gammas, len(u) // len(gammas))[:, None]
    best, tables = np.maximum(sigma - decay / sizes, 0), []
    for step in range(1, steps + 1):
        slope = 2 * sizes * (u * w - sigma)
        u, w = u - lr * (slope * w + 2 * decay * u), w - lr * (slope * u + 2 * decay * w)
        if step not in (steps // 8, steps // 4, steps // 2, steps):
            continue
        theta = u * w
        least = decay - np.log(1e6) / (4 * lr * step)
        columns = {
            "zero_rank": (theta > 1e-6).sum(1),
            "rank": (theta > np.maximum(1e-3 * theta.max(1, keepdims=True), 1e-6)).sum(1),
            "convex": (best > 1e-6).sum(1),
            "above": (sigma * sizes > decay).sum(1),
            "above_band": (sigma * sizes > least).sum(1),
        }
        tables.append(pd.DataFrame(at).assign(step=step, **columns))
    return {story_factors.FACTOR: pd.concat(tables, ignore_index=True)}


ATTENDED = ("decay", "together", "values", "balance", "step")


@once
def attention(generator, seeds=5, size=21):
    """Query and key whose distance and size fall by decay, but for what is learned: ranks as of their spectra.

    Five seeds, since three do not know differences of ranks in two layers to a half.
    """
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
                        rows += [{**row, "optimizer": name, "lr": 0.005} for name in ("Adam", "gradient descent")]
                        # Along gradient flow steps of half the length change nothing.
                        rows.append({**row, "optimizer": "gradient descent", "lr": 0.0025, "step": 2 * row["step"]})
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
                row = {"problem": "lasso", "start": "unequal", "seed": seed, "strength": strength, "step": step}
                rows.append({**row, "method": "factors", "gap": gap})
    return {story_factors.COURSE: pd.DataFrame(rows)}


def sparse(generator, seeds=20, images=2500):
    """All methods as accurate in networks of a seed, on as many test images; one rounding changes ten at most.

    Twenty seeds know a difference of 0 to a point on MNIST's 2,500 images; presets have 12 of neurons and 3 of others.
    """
    rows = story_factors.sparse()
    rows = pd.concat([rows.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    by = ["structure", "seed", "share"]
    of_seed, of_run = (rows.groupby(keys, sort=False).ngroup() for keys in (by, [*by, "method", "strength"]))
    level = generator.normal(93, 1, of_seed.max() + 1)[of_seed]
    right = generator.binomial(images, 0.93, of_run.max() + 1)[of_run] / images
    changed = rows["repeat"] * generator.integers(-10, 11, len(rows)) / images
    return {story_factors.SPARSE: rows.assign(test=level + 100 * (right - 0.93 + changed))}


def solver_steps(generator, seeds=5):
    """Gaps that fall by a factor a step, which each draw of a problem has anew; factors need half of ISTA's steps."""
    steps = np.unique(np.r_[0, np.logspace(0, np.log10(20_000), 52).round()]).astype(int)
    rows = []
    for problem in ("lasso", "group lasso", "nuclear norm"):
        for seed in range(seeds):
            for strength in (0.03, 0.1, 0.3):
                time = np.exp(generator.normal(4, 0.5))
                for method, faster in ((story_factors.FACTORS, 2), (story_factors.ISTA, 1)):
                    at = {"problem": problem, "seed": seed, "strength": strength, "method": method}
                    gaps = np.exp(-faster * steps / time)
                    rows.append(pd.DataFrame({"step": steps, "gap": gaps}).assign(start="unequal", **at))
    return {story_factors.COURSE: pd.concat(rows, ignore_index=True)}


def alike(generator, seeds=4, neurons=128):
    """Blocks of neurons by decay: how many of the pairs of so many neurons correlate and merge, by chance."""
    pairs = neurons * (neurons - 1) // 2
    rows = story_networks.homogeneity()
    rows = pd.concat([rows.query("seed == 0").assign(seed=seed) for seed in range(seeds)], ignore_index=True)
    scatter = np.exp(0.15 * generator.normal(size=len(rows)))
    rows["positive"] = generator.binomial(pairs, np.clip(rows["positive"] * scatter, 0, 1)) / pairs
    rows["merged"] = generator.poisson(rows["merged"])
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


def accuracies(generator, seeds=12, images=2500):
    """Networks of every kind as accurate, on as many test images; of products that have vanished nothing is lost.

    Twelve seeds, since four do not know a difference of 0 to a point.
    """
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
    "2-blocks": hessian,
    **dict.fromkeys(("2-gamma-0", "2-gamma-1", "2-eq-2", "2-eq-6", "2-eq-6-without", "2-no-reflection"), theorem),
    "2-threshold": decays,
    **dict.fromkeys(("5-stays", "5-equal", "5-adam"), optimizers),
    "5-dropout": dropped,
    "5-rounding": rounding,
    **{
        f"thm1-{name}": mirrors_of_networks
        for name in ("gradient", "gradient-off", "hessian", "stays", "growth", "second-order")
    },
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
        )
    },
    **{f"tasks-{name}": labellings for name in ("loss", "dead", "remedies")},
    **{f"8-{name}": factors for name in ("staircase", "full-range", "rank", "band")},
    **{f"{figure}-{name}": attention for figure in (9, 10) for name in ATTENDED},
    "10-layers": attention,
    "solvers-gap": solvers,
    **{f"6-{name}": alike for name in ("correlated", "merged", "blocks")},
    **dict.fromkeys(("7-memory", "7-memory-large"), bytes_held),
    **{f"7-{name}": accuracies for name in ("zeroed", "sparse", "accurate", "starts", "pruned")},
    "budget-least": vanishing,
    "removed-fewer": removed,
    **{f"sparse-{name}": sparse for name in ("proximal", "pruned", "repeated")},
    "solvers-steps": solver_steps,
    **simulated_online.SIMULATIONS,
}
