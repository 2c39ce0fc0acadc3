"""Tables on which the paper on neural collapse is right, and how each claim's are spoiled."""

import functools

import pandas as pd

from symlab.papers.neural_collapse.gufm import least_loss, squared_error_optimum

COURSE, LAYERS, CRITICAL = "collapse_course.csv", "collapse_layers.csv", "critical_penalty.csv"
GROWTH, SAMPLES = "collapse_growth.csv", "collapse_samples.csv"
RAISED, PERTURBED = "critical_hysteresis.csv", "perturbed_classes.csv"
DEPTHS = (1, 2, 3, 5, 8, 13, 21, 34)
CE, MSE = "cross_entropy", "squared_error"
SETTINGS = (
    *(("rn1", "constant", CE), ("t11", "constant", CE), ("rn2", "constant", CE), ("rn2", "uniform", CE)),
    *(("rn2", "split", CE), ("rn1", "constant", MSE)),
)
SEEDS = 4


def described(network, by, L, loss=CE):
    last = 0.005 / L if by == "uniform" else 0.005
    hidden = 0.005 if by == "constant" else 0.005 / L
    key = {"dataset": "digits", "network": network, "pre_norm": False, "loss": loss, "by_depth": by}
    return key | {"hidden_penalty": hidden, "last_penalty": last, "width": 64, "classes": 10, "L": L}


def course():
    rows = []
    for network, by, loss in SETTINGS:
        for L in DEPTHS:
            for seed in range(SEEDS):
                flat = network == "rn2" and by == "constant"
                power = (0.02 if flat else 1.2) * (1 + 0.02 * (seed % 2))
                penalty = described(network, by, L)["last_penalty"]
                optimum = least_loss(64, 10, penalty) if loss == CE else squared_error_optimum(64, 10, penalty)[0]
                excess = 0.01 * L ** (-0.0 if flat else -power) - (1e-6 * L if flat else 0)
                for step in (0, 500, 800, 900, 1000):
                    late = 1 if step else 3
                    nc1 = late * 0.05 * L**-power
                    nc2 = late * 0.5 * L ** (-power / 2)
                    row = {"step": step, "seed": seed, "accuracy": 1.0, "NC1": nc1, "NC2A": nc2, "NC2B": nc2}
                    row |= {"NC2A_centred": nc2, "gradient": 1e-4 if step else 1.0, "between": 60.0}
                    unseen = 0.01 * L**0.3 if by == "uniform" else nc1 * 0.4
                    row |= {"NC3": late * 0.2 * L**-power, "NC1_row": nc1 * 0.6, "NC1_null": unseen}
                    row |= {"fit": optimum + late * excess / 2, "hidden": late * excess / 2, "last": 0.0, "N": 300}
                    rows.append(described(network, by, L, loss) | row)
    return pd.DataFrame(rows)


def layers():
    rows = []
    for network, by, loss in SETTINGS:
        for L in DEPTHS:
            for seed in range(SEEDS):
                for layer in range(1, L + 1):
                    nc1 = 0.5 * (1 - 0.3 * layer / L) * L ** -(0.9 + 0.01 * (seed % 2))
                    rows.append(described(network, by, L, loss) | {"layer": layer, "seed": seed, "NC1": nc1})
    return pd.DataFrame(rows)


def sweep():
    """Networks whose branches live to a penalty of 0.0025 and are dead from 0.0035 on."""
    rows = []
    for L in (2, 5):
        for penalty in (0.001, 0.0025, 0.0035, 0.005):
            weights = 1.0 if penalty < 0.003 else 1e-6
            row = described("rn2", "swept", L) | {"hidden_penalty": penalty, "hidden": penalty / 2 * weights * (L - 1)}
            row |= {
                "fit": 0.03,
                "last": 0.01,
                "NC1": 0.2,
                "NC2A": 0.2,
                "NC2B": 0.5,
                "NC3": 0.1,
                "NC1_row": 0.1,
                "NC1_null": 0.1,
            }
            row |= {"between": 60.0, "gradient": 1e-4, "accuracy": 1.0, "N": 300}
            rows += [row | {"seed": seed, "step": step} for seed in range(2) for step in (0, 1000)]
    return pd.DataFrame(rows)


def critical():
    return pd.DataFrame([{"dataset": "digits", "last_penalty": 0.005, "seed": s, "critical": 0.003} for s in (0, 1)])


def growth():
    rows = []
    for network, by in (("rn1", "constant"), ("rn2", "constant"), ("rn2", "split")):
        for L in (2, 3, 5, 9, 17, 33):
            for seed in range(SEEDS):
                power = (0.02 if (network, by) == ("rn2", "constant") else 1.3) * (1 + 0.02 * (seed % 2))
                fit = least_loss(64, 10, 0.005) + (0.002 if by == "constant" else 0.008) * L**-power
                row = {"dataset": "digits", "network": network, "by_depth": by, "L": L, "width": 64, "classes": 10}
                row |= {"last_penalty": 0.005, "N": 300, "seed": seed, "fit": fit, "hidden": 0.0, "last": 0.0}
                row |= {"NC1": L**-power, "NC2A": L ** (-power / 2), "NC3": L**-power}
                rows += [row | {"moment": moment} for moment in (["split", "trained"] if L > 2 else ["trained"])]
    return pd.DataFrame(rows)


def raised():
    """Networks whose branches live to a penalty of 0.005 where others are dead from 0.0035 on."""
    rows = []
    for L in (2, 5):
        for penalty in (0.001, 0.0025, 0.0035, 0.005, 0.007):
            row = {"dataset": "digits", "last_penalty": 0.005, "L": L, "hidden_penalty": penalty, "NC1": 0.2}
            rows += [row | {"seed": seed, "weights": 1.0 if penalty < 0.006 else 1e-6} for seed in range(2)]
    return pd.DataFrame(rows)


def perturbed():
    """Networks of lower loss than those without branches, or, with a constant penalty, of the same."""
    rows = []
    for scheme in ("rn1", "rn2 constant", "rn2 uniform", "rn2 split"):
        for placement in ("class space", "other dimensions"):
            for L in (2, 8, 21):
                for eps in (0.02, 0.05, 0.4):
                    for seed in range(2):
                        goes = scheme in ("rn1", "rn2 split")
                        left = (L**-0.5 if goes else 1.0) * (1 + 0.01 * seed)
                        row = {"scheme": scheme, "placement": placement, "L": L, "eps": eps, "seed": seed}
                        row |= {
                            "NC1_in": eps**2,
                            "NC1": left * eps**2,
                            "NC1_row": 0.1 * left * eps**2,
                            "hidden": 0.0,
                            "last": 0.0,
                            "fit": 0.1,
                        }
                        rows.append(row | {"without": 0.2 if goes else 0.1})
    return pd.DataFrame(rows)


def few():
    """RN1 on as few samples as the rank, where depth does nothing, and on enough of them."""
    rows = course()
    rows = rows[of(rows, "rn1")]
    less = rows.copy()
    for name in ("NC1", "NC2A", "NC3"):
        less[name] = less[name].groupby([less["seed"], less["step"]]).transform("first") * (1 + 0.001 * less["L"])
    samples = pd.DataFrame([{"dataset": "digits", "N": 300, "rank": 60}, {"dataset": "digits", "N": 40, "rank": 40}])
    return {COURSE: pd.concat([rows, less.assign(N=40)], ignore_index=True), SAMPLES: samples}


@functools.cache
def tables():
    courses = pd.concat([course(), sweep()], ignore_index=True)
    samples = pd.DataFrame([{"dataset": "digits", "N": 300, "rank": 60}])
    tables = {COURSE: courses, LAYERS: layers(), CRITICAL: critical(), GROWTH: growth(), SAMPLES: samples}
    return tables | {RAISED: raised(), PERTURBED: perturbed()}


@functools.cache
def few_tables():
    return few()


@functools.cache
def on_three_data_sets():
    """Of other data the same networks."""
    found = tables()
    courses, samples = (
        pd.concat([found[name].assign(dataset=dataset) for dataset in ("digits", "mnist", "cifar10_jpeg")])
        for name in (COURSE, SAMPLES)
    )
    return found | {COURSE: courses.reset_index(drop=True), SAMPLES: samples.reset_index(drop=True)}


def story(name):
    """The tables of a claim or figure: too few samples would be no evidence of anything else."""
    if name.startswith("few"):
        return few_tables()
    return on_three_data_sets() if name.startswith("1-falls") else tables()


def of(table, network, by="constant"):
    return (table["network"] == network) & (table["by_depth"] == by) & (table["loss"] == CE)


def rising(table):
    table.loc[of(table, "rn1"), "NC1"] = 0.01 * table["L"]


def linear_in_depth(table):
    table.loc[of(table, "rn1"), "NC1"] = 0.05 * 10 ** (-0.1 * table["L"])


def slow(table):
    table.loc[of(table, "rn1"), "NC3"] = 0.2 * table["L"] ** -0.4


def falling_control(table):
    rn1 = table[of(table, "rn1")]
    table.loc[of(table, "rn2"), "NC1"] = rn1["NC1"].to_numpy()


def beyond_the_certificate(table):
    table.loc[of(table, "rn1") & (table["L"] == 5) & (table["seed"] == 1), "NC1"] = 10.0


def risen_loss(table):
    table.loc[of(table, "rn1") & (table["L"] == 8), "hidden"] += 0.01


def scatter(by, part, power):
    def spoil(table):
        table.loc[of(table, "rn2", by), part] = 0.02 * table["L"] ** power

    return spoil


def as_split(table):
    table.loc[of(table, "rn2", "split"), "NC1"] = 0.01 * table["L"]


def as_uniform(table):
    table.loc[of(table, "rn2", "uniform"), "NC1"] = 0.01 * table["L"]


def rising_evenly(table):
    table.loc[of(table, "rn1"), "NC1"] = 0.01 * table["L"] ** 0.4


def below_critical(table):
    table.loc[table["last_penalty"] == 0.005, "critical"] = 0.006


def dead_before_others(table):
    """Between 0.001 and 0.002, where branches from random weights live to 0.0025."""
    table["hidden_penalty"] = table["hidden_penalty"].replace(0.0025, 0.002)
    table.loc[table["hidden_penalty"] > 0.001, "weights"] = 1e-6


def left_where(scheme, share):
    def spoil(table):
        table.loc[table["scheme"] == scheme, "NC1"] = share * table["NC1_in"]

    return spoil


def seen_by_the_last_layer(table):
    table["NC1_row"] = table["NC1"]


def falling_where_few(table):
    enough = table.loc[table["N"] == 300, "NC1"].to_numpy()
    table.loc[table["N"] == 40, "NC1"] = enough


def grown_with_two_layers(table):
    one = table.loc[(table["network"] == "rn1"), "fit"].to_numpy()
    table.loc[(table["network"] == "rn2") & (table["by_depth"] == "constant"), "fit"] = one


def slowly_grown(table):
    table["NC3"] = table["L"] ** -0.5


def badly_grown(table):
    table["hidden"] = 0.05


def other_critical(table):
    table["critical"] = 0.001


def risen_before_the_last(table):
    table.loc[of(table, "rn1"), "NC1"] = 0.01 * table["L"]


SPOILED = {
    "1-falls": (COURSE, rising),
    "1-falls-converged": (COURSE, rising),
    "1-log-linear": (COURSE, linear_in_depth),
    "1-rate": (COURSE, slow),
    "2-control": (COURSE, falling_control),
    "certificate-holds": (COURSE, beyond_the_certificate),
    "loss-monotone": (COURSE, risen_loss),
    "1-falls-uniform": (COURSE, as_uniform),
    "1-falls-theorems": (COURSE, as_split),
    "loss-seen": (COURSE, scatter("uniform", "NC1_row", 0.1)),
    "loss-unseen-kept": (COURSE, scatter("uniform", "NC1_null", -1.0)),
    "loss-unseen-goes": (COURSE, scatter("split", "NC1_null", 0.1)),
    "critical-control": (CRITICAL, below_critical),
    "critical-hysteresis": (RAISED, dead_before_others),
    "few-flat": (COURSE, falling_where_few),
    "perturbed-constant": (PERTURBED, left_where("rn2 constant", 0.5)),
    "perturbed-uniform": (PERTURBED, left_where("rn2 uniform", 0.5)),
    "perturbed-seen": (PERTURBED, seen_by_the_last_layer),
    "perturbed-leaves": (PERTURBED, left_where("rn1", 0.8)),
    "growth-control": (GROWTH, grown_with_two_layers),
    "critical-switch": (CRITICAL, other_critical),
    "growth-rate": (GROWTH, slowly_grown),
    "growth-lower": (GROWTH, badly_grown),
    "layers-before-last": (LAYERS, risen_before_the_last),
}
PASSED_OVER = ("growth-control",)
