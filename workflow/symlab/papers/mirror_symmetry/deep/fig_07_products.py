"""Figure 7: networks of products train as well, and most of their parameters vanish, by decay."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.mirror_symmetry.deep.fig_03_06_homogeneity import LEVEL, NETWORK, permutation_test
from symlab.plotting.style import PAGE, Figure, Look, Style, palette
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Measurement, Tables, above, at_least, at_most, below, between, exact_value
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.tables import chance, last_epoch, need

SIZES, PRUNED, HISTORY = "magnitudes.csv", "pruned.csv", "history.csv"
MEMORY, TIMES = "mirror_memory.csv", "mirror_step_times.csv"
VANISHED = 1e-6  # The paper's threshold.
LEAST = 0.5 * np.log(1 / VANISHED)
"""The budget below which decay alone takes no product of size 1 below 1e-6."""
SPARSE = 0.1
"""Share of vanished parameters from which on networks are called sparse."""
PLAIN, PRODUCTS, ROWS = "plain", "products", "rows"
PROXIMAL, WEIGHTS = "proximal SGD", "products, weights alone decayed"
STARTS = ("products on mirrors", "products, independent")
NAMES = {PLAIN: "vanilla", PRODUCTS: "products", ROWS: "rows by a factor each"}
KEY = ["trained_as", "weight_decay"]
LEARNED = 0.9
"""Share of training samples: who was right on it has learned, and who ends below has forgotten."""


def of_kind(tables: Tables, name: str, *kinds: str) -> pd.DataFrame:
    """Rows of a table about standard networks and parametrisations of the same width, with how each is trained."""
    keys = ["trained_as", "weight_decay", "budget"]
    trained = need(tables, SIZES).drop_duplicates("variant").set_index("variant")
    trained = trained[trained["scheme"].isin(("standard", "hadamard", "dcs"))]
    # Of several widths the one with most variants.
    width = trained["width"].fillna(0)
    trained = trained[width == width.mode().max()]
    rows = need(tables, name).drop(columns=keys, errors="ignore")
    rows = rows[rows["variant"].isin(trained.index)].join(trained[keys], on="variant")
    return rows[rows["trained_as"].isin(kinds or (PLAIN, PRODUCTS))]


def guessing(tables: Tables) -> float:
    """The accuracy in percent up to which a network guesses; none does where the number of classes is not known."""
    level = chance(need(tables, PRUNED))
    return -1.0 if level is None else 150 * level  # Classes differ in size, and samples are drawn.


def that_learned(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the networks that do not guess: parameters of one that has learned nothing vanish for no good reason.

    Where fewer than two of a variant have learned all of its rows stay, and ``undecided`` says how many guess.
    """
    pruned = need(tables, PRUNED)
    whole = pruned[(pruned["share"] == 0) & pruned["threshold"].isna()]
    guesses = whole.set_index(["variant", *NETWORK])["accuracy"] <= guessing(tables)
    of_variant = guesses.groupby(level="variant")
    several, networks = of_variant.transform("sum"), of_variant.transform("size")
    few = (several > 0) & (networks - several < 2)
    told = several.astype(str) + " of " + networks.astype(str) + " networks guess"
    marks = pd.DataFrame({"left_out": guesses & ~few, "undecided": told.where(few, "")})
    rows = rows.join(marks, ["variant", *NETWORK])
    return rows[~rows["left_out"]].drop(columns="left_out")


def vanished(tables: Tables, *kinds: str) -> pd.DataFrame:
    """Share of parameters below 1e-6 at the end, a row a network that learned."""
    rows = last_epoch(of_kind(tables, SIZES, *kinds))
    return that_learned(tables, rows[np.isclose(rows["threshold"], VANISHED)])


def opened(rows: pd.DataFrame, value: str, by: list[str], name: Callable[[Any], str]) -> Cases:
    """A value of each network by case, open where too few networks of a case learned."""
    found, undecided = cases(rows, value, by, NETWORK, name), rows.groupby(by, sort=False)["undecided"].first()
    return replace(found, of=tuple(replace(each, open=told) for each, told in zip(found, undecided, strict=True)))


def shown_decay(tables: Tables) -> float:
    """The smallest decay that both kinds of network have at which a tenth of the products' parameters vanish.

    Raises:
        UserError: both kinds share no decay.
    """
    rows = of_kind(tables, SIZES)
    plain, products = (set(rows.loc[rows["trained_as"] == kind, "weight_decay"]) for kind in (PLAIN, PRODUCTS))
    if not (decays := sorted(plain & products)):
        raise UserError("it needs a standard and a hadamard variant with the same recipe.weight_decay.")
    shares = vanished(tables, PRODUCTS).groupby("weight_decay")["share"].mean()
    return next((decay for decay in decays if shares[decay] >= SPARSE), decays[-1])


def _training_and_vanishing(tables: Tables, style: Style) -> Figure:
    decay = shown_decay(tables)
    kinds = PLAIN, PRODUCTS, ROWS, PROXIMAL, WEIGHTS

    of_kinds = (of_kind(tables, name, *kinds) for name in (HISTORY, SIZES, PRUNED))
    at_decay = (rows[rows["weight_decay"] == decay] for rows in of_kinds)
    history, sizes, cut = (rows.assign(label=rows["trained_as"].replace(NAMES)) for rows in at_decay)
    names = [name for kind in kinds if (name := NAMES.get(kind, kind)) in set(sizes["label"])]
    colors = dict(zip(names, palette(style), strict=False))
    looks = {name: Look(color, "-", "") for name, color in colors.items()}
    looks |= {f"{name}, training": Look(color, "--", "") for name, color in colors.items()}
    train = history.assign(label=history["label"] + ", training", accuracy=100 * history["train_accuracy"])
    both = pd.concat([history.assign(accuracy=100 * history["val_accuracy"]), train])
    sizes = sizes[np.isclose(sizes["threshold"], VANISHED)]
    low = min(float(history["val_accuracy"].quantile(0.1)) * 100, 90) - 1
    pruned = cut[cut["threshold"].isna()]
    grid = [
        Panel(both, "epoch", "accuracy", labelled("epoch", "accuracy in %", ylim=(low, 100.5))),
        Panel(sizes, "epoch", "share", labelled("epoch", "share below 1e-6", ylim=(-0.02, 1))),
        Panel(pruned, "share", "accuracy", labelled("share set to 0", "test accuracy in %")),
    ]
    return draw_grid([grid], looks, sharex=False, sharey=False, width=PAGE, height=2.0, note=f"decay {decay:g}")


FIGURES = {
    "mirror-7": Drawing(
        "Every parameter a product of two",
        "Networks as they are (vanilla) and with every parameter a product of two trained ones, or every row of "
        "weights times a factor, with one recipe. Left, accuracy on held-out (solid) and training samples (dashed) "
        "over the epochs; middle, share of parameters below 1e-6; right, test accuracy once the smallest parameters "
        "are set to 0, against their share. Mean and standard deviation over networks, at the smallest decay at which "
        "a tenth of the products vanish.",
        _training_and_vanishing,
        seen=Sentence(
            "At a decay of 0 products are {gap} percentage points more accurate than vanilla networks.",
            {"gap": at("mirror-7-accurate", weight_decay=0)},
            "At a decay of 0 products are less accurate than vanilla networks already, by {gap} percentage points.",
        ),
        differs="The paper's is ResNet-18 on CIFAR-10 with a cosine schedule; it shows no pruning.",
    ),
}


def _accuracies(pruned: pd.DataFrame) -> Cases:
    """Test accuracy in percent of every network, nothing set to 0, by parametrisation and decay."""
    whole = pruned[(pruned["share"] == 0) & pruned["threshold"].isna()].sort_values("weight_decay")
    return cases(whole, "accuracy", KEY, NETWORK, _name)


def _name(key: Any) -> str:
    kind = (NAMES | {PRODUCTS: "", WEIGHTS: "weights alone"}).get(key["trained_as"], key["trained_as"])
    return ", ".join(filter(None, [kind, f"decay {key['weight_decay']:g}"]))


def vanished_share(tables: Tables) -> list[Found]:
    """Of products' parameters, over networks that learned; a case a decay whose budget is enough for it."""
    rows = vanished(tables, PRODUCTS)
    rows = rows[rows["budget"] >= LEAST].sort_values("weight_decay")
    found = opened(rows, "share", KEY, _name).means()
    return found or [f"no networks of products with a budget of decay of {LEAST:.2g} or more"]


def accuracy_gap(kinds: Sequence[str], base: str, lacks: str, tables: Tables) -> list[Found]:
    """Accuracy of networks of some kinds less that of another kind with the same decay."""
    against = _accuracies(of_kind(tables, PRUNED, base)).keyed("weight_decay")
    return _accuracies(of_kind(tables, PRUNED, *kinds)).differences(against) or [lacks]


def why_less_accurate(tables: Tables) -> Iterator[tuple[str, str]]:
    """At each decay what the parametrisation costs without it, what it takes from each, and how kin of products do."""
    whole = of_kind(tables, PRUNED, PLAIN, PRODUCTS, ROWS, WEIGHTS).query("share == 0 and threshold.isna()")
    means = whole.groupby(["weight_decay", "trained_as"])["accuracy"].mean().unstack()
    shares = vanished(tables, PRODUCTS, ROWS).groupby(["trained_as", "weight_decay"])["share"].mean()
    without = means.reindex([0.0]).reindex(columns=[PLAIN, PRODUCTS]).iloc[0]
    for decay, of in means[means.index > 0].reindex(columns=[PLAIN, PRODUCTS, ROWS, WEIGHTS]).iterrows():
        lead, told = "The same decay is another penalty, on every |θ|", []
        if (PRODUCTS, decay) in shares:
            told.append(f"of products {100 * shares[PRODUCTS, decay]:.0f} % vanish")
        if without.notna().all():
            lost, alone = without - of, without[PLAIN] - without[PRODUCTS]
            lead = lead if lost[PRODUCTS] - lost[PLAIN] > alone else "Less than half of it is decay's"
            told.append(f"without decay they are {alone:.1f} points less accurate already")
            told.append(f"decay takes {lost[PRODUCTS]:.1f} from them and {lost[PLAIN]:.1f} from vanilla networks")
        if (ROWS, decay) in shares and pd.notna(of[ROWS]):
            rows = f"rows by a factor, of which {100 * shares[ROWS, decay]:.0f} % vanish"
            told.append(f"{rows}, differ by {of[ROWS] - of[PLAIN]:+.1f} from vanilla networks")
        if pd.notna(of[WEIGHTS]):
            gained = of[WEIGHTS] - of[PRODUCTS]
            told.append(
                f"where norms' gains and all biases do not decay products differ by {gained:+.1f} points from these"
            )
        yield f"decay {decay:g}", f"{lead}: {'; '.join(told)}."


def learned_less_often(tables: Tables) -> list[Found]:
    """p that as many networks of proximal SGD more than of products have learned by chance, at each decay."""
    networks = _accuracies(of_kind(tables, PRUNED, PRODUCTS, PROXIMAL))
    learned = networks.map(lambda of: (of > guessing(tables)).astype(float).where(of.notna()))
    lacks = "needs products, and standard networks with recipe.l1 of the products' weight_decay"
    return [*_more_often(learned, PROXIMAL, PRODUCTS)] or [lacks]


def forget_less_often(tables: Tables) -> list[Found]:
    """p that as many networks of products more forget where norms' gains and biases decay too, at each decay."""
    history = of_kind(tables, HISTORY, PRODUCTS, WEIGHTS).sort_values("epoch")
    of_network = history.groupby([*KEY, *NETWORK])["train_accuracy"]
    best, last = of_network.max(skipna=False), of_network.agg(lambda of: of.iloc[-1])
    never = best < LEARNED
    forgot = (last < LEARNED).astype(float).where(best.notna() & last.notna())[~never]
    networks = cases(forgot, by=KEY, unit=NETWORK, name=_name)
    told = f"; {never.sum()} of {len(never)} never learned and are left out"
    found: list[Found] = [replace(each, detail=each.detail + told) for each in _more_often(networks, PRODUCTS, WEIGHTS)]
    return found or ["needs two hadamard variants of one decay that learn, one with recipe.decay_bias: false"]


def _more_often(networks: Cases, kind: str, base: str) -> list[Measurement]:
    pairs = networks.at(trained_as=kind).beside(networks.at(trained_as=base).keyed("weight_decay"))
    return [permutation_test(*pair) for pair in pairs]


def lost_with_zeros(tables: Tables) -> list[Found]:
    """Accuracy of sparse products that learned with all below the threshold set to 0, less that as they are."""
    rows = that_learned(tables, of_kind(tables, PRUNED, PRODUCTS)).query("undecided == ''")
    cut = rows[np.isclose(rows["threshold"].fillna(0), VANISHED)].sort_values("weight_decay")
    hardly = cut.groupby("weight_decay")["share"].transform("mean") < SPARSE
    zeroed = cases(cut[~hardly], "accuracy", KEY, NETWORK, _name)
    return (zeroed - _accuracies(rows)).means() or ["at no decay a tenth of the parameters vanish"]


def time_ratio(tables: Tables) -> list[Found]:
    """CPU time of a step of products over that of a vanilla network's step of the same turn, at the paper's batch."""
    rows = tables[TIMES].query("batch == 128")
    steps = cases(rows, "seconds", ["batch", "scheme"], "turn", "batch {batch}")
    ratios = steps.at(scheme="hadamard") / steps.at(scheme="standard").keyed("batch")
    return replace(ratios, unit="steps of each").means() or ["needs memory.batch of 128"]


def pruned_vanilla(tables: Tables) -> list[Found]:
    """Accuracy that vanilla networks lose, cut to the share that a parametrisation has below 1e-6, less what it loses.

    Open where of either kind too few learned: who guesses has nothing to lose.
    """
    pruned = that_learned(tables, of_kind(tables, PRUNED, PLAIN, PRODUCTS, ROWS))
    whose = pruned["trained_as"].map(NAMES) + ": " + pruned["undecided"]
    pruned["undecided"] = whose.where(pruned["undecided"] != "", "")
    plain = pruned[(pruned["trained_as"] == PLAIN) & pruned["threshold"].isna()]
    zeroed = pruned[np.isclose(pruned["threshold"].fillna(0), VANISHED)].sort_values("weight_decay")
    zeroed = zeroed[(zeroed["trained_as"] != PLAIN) & zeroed["weight_decay"].isin(plain["weight_decay"])]
    shares = zeroed.groupby(KEY, sort=False)["share"].mean()
    lost = []
    for (kind, decay), share in shares[shares >= SPARSE].items():
        curves = plain[plain["weight_decay"] == decay].groupby([*NETWORK, "undecided"])[["share", "accuracy"]]
        losses = curves.apply(_lost_at, share=share).reset_index(name="lost")
        lost.append(losses.assign(trained_as=kind, weight_decay=decay))
    if not lost:
        return ["at no decay a tenth of the parameters vanish"]

    def name(key: Any) -> str:
        return f"{_name(key)}, {100 * shares[tuple(key.values())]:.3g} % of the parameters"

    mine = _accuracies(pruned) - opened(zeroed, "accuracy", KEY, _name)
    return opened(pd.concat(lost), "lost", KEY, name).differences(mine)


def _lost_at(curve: pd.DataFrame, share: float) -> float:
    """What a network loses with that share of its parameters set to 0, linear between the measured shares."""
    curve = curve.sort_values("share")
    return float(curve["accuracy"].iloc[0] - np.interp(share, curve["share"], curve["accuracy"]))


def memory_ratio(tables: Tables, batch: int | None) -> list[Found]:
    """Bytes of products over those of vanilla networks at a batch size, or the largest."""
    held = tables[MEMORY].set_index(["batch", "scheme"])
    rows = held[["parameters", "gradients", "momentum", "activations"]].sum(axis=1, skipna=False).unstack("scheme")
    if not {"hadamard", "standard"} <= set(rows):
        return ["needs products and vanilla networks"]
    ratios = rows["hadamard"] / rows["standard"]
    size = ratios.index.max() if batch is None else batch
    return [exact_value(float(ratios[size]), 1, f"batch {size}", unit="networks")] if size in ratios else []


_claim = partial(Claim, tables=(SIZES, PRUNED), owner="ours", origin="ours")
_bytes = "bytes of parameters, gradients, momentum and saved activations over those of a vanilla network"
_memory = partial(Claim, tables=(MEMORY,), owner="paper", quantity=_bytes)
CLAIMS = {
    "mirror-7-memory": _memory(
        statement="At a batch of one sample products take twice the memory",
        bound=between(1.5, 2.5),
        origin="ours",
        reason="Appendix B.4 says twice; a quarter is left for how products are computed.",
        measure=lambda tables: memory_ratio(tables, 1),
    ),
    "mirror-7-memory-large": _memory(
        statement="At a large batch they take hardly more",
        bound=below(1.1),
        origin="paper",
        reason="Appendix B.4: less than 10 % at a batch of 128.",
        why="Products add their factors, with gradients and momentum, however they are computed. The paper's peak "
        "on a GPU counts temporary buffers besides.",
        measure=lambda tables: memory_ratio(tables, None),
    ),
    "mirror-7-time": _claim(
        statement="At a batch of 128 products take about as long to train as vanilla networks",
        quantity="CPU seconds of a training step over those of a vanilla network's, steps of both in turn",
        bound=at_most(1.5),
        owner="paper",
        reason="Appendix B.4 reads similar training time off Fig. 7's learning curves, at a batch of 128; seconds a "
        "step are our reading. Half as long again is the most that would be called so.",
        tables=(TIMES,),
        measure=time_ratio,
    ),
    "mirror-7-zeroed": _claim(
        statement="Setting what has vanished to 0 has no effect",
        quantity="test accuracy of products with all below 1e-6 set to 0, less that without, in percentage points",
        bound=between(-0.25, 0.25),
        owner="paper",
        reason="Fig. 7: no discernible effect on the performance; a quarter of a point is ours. Of networks that do "
        "not guess, and of whose parameters a tenth have vanished.",
        measure=lost_with_zeros,
    ),
    "mirror-7-sparse": _claim(
        statement="Many parameters of products vanish",
        quantity="share of parameters below 1e-6 at the end, of networks that do not guess",
        bound=at_least(SPARSE),
        owner="paper",
        reason="The paper calls its parameters very sparse; a tenth is the least that would be called so. Below a "
        "budget of decay of 7 none can vanish; the paper's is 20.",
        measure=vanished_share,
    ),
    "mirror-7-accurate": _claim(
        statement="Products reach the accuracy of vanilla networks",
        quantity="test accuracy of products less that of vanilla networks, in percentage points",
        bound=at_least(-1),
        owner="paper",
        reason="The paper: both about 93 %, products higher by a small margin; a point is left for the difference. At "
        "a decay of 0 the parametrisation alone differs.",
        measure=partial(accuracy_gap, (PRODUCTS,), PLAIN, "needs vanilla networks and products with the same decay"),
        why=why_less_accurate,
    ),
    "mirror-7-starts": _claim(
        statement="How factors start hardly matters to accuracy",
        quantity="test accuracy of products from another start less that from ours, in percentage points",
        bound=between(-1, 1),
        reason="A point, as for products against vanilla. On mirrors (|u| = |w|) no sign can change; independent "
        "factors are how the authors of spred start.",
        measure=partial(accuracy_gap, STARTS, PRODUCTS, "needs hadamard variants with other values of start"),
    ),
    "mirror-7-proximal": _claim(
        statement="Fewer networks of products learn than of those that proximal SGD of the same penalty trains",
        quantity="p of Fisher's exact test of how many networks do not guess at the end",
        bound=at_most(LEVEL),
        origin="pilot",
        reason="Sec. 2.4 says of the lasso that both have the same minimum, not that training gets there. Networks "
        "learn or guess: means of accuracies, compared first for four networks a kind, of which none and two learned, "
        "say nothing to a point. The study norms_decay has other seeds.",
        measure=learned_less_often,
    ),
    "mirror-7-norms": _claim(
        statement="Where norms' gains and biases do not decay, fewer networks of products forget what they learned",
        quantity="p of Fisher's exact test of how many networks, once right on 90 % of training samples, end below it",
        bound=at_most(LEVEL),
        origin="pilot",
        reason="Networks forget or do not, so that means of accuracies, compared first, say nothing to a point. Ten of "
        "twelve forgot then, and two of twelve without that decay.",
        tables=(SIZES, HISTORY),
        measure=forget_less_often,
    ),
    "mirror-7-pruned": _claim(
        statement="Vanilla networks cut to the sparsity of products lose more",
        quantity="percentage points that vanilla networks lose, less those that products lose",
        bound=above(0),
        reason="A constraint that training knows of must cost less than one imposed afterwards.",
        measure=pruned_vanilla,
    ),
}
