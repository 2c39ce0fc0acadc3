"""Figures that a study cannot give are refused before anything is trained, with the key to set."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from symlab.config import parse_config
from symlab.figures import FIGURES
from symlab.figures.needs import NEEDS, check_figures

ROOT = Path(__file__).parents[3]
CONFIGS = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "presets").glob("*.yaml"))]

STANDARD = {"scheme": {"name": "standard"}}
SPARSE = {"scheme": {"name": "sparse", "density": 1}}
ALL_BUT_THEORY = {"matching": {}, "interpolation": {}, "identification": {}}


def w(*sigmas, **keys):
    return {"scheme": {"name": "w_asymmetric", "n_fixed": 4} | keys, "sweep": {"scheme.sigma_F": list(sigmas)}}


def config(figure, **changes):
    """A study of one figure; unless changed, of digits and standard networks, with all analyses."""
    study = {
        "dataset": "digits",
        "network": {"name": "mlp", "widths": [8, 8], "norm": "batchnorm"},
        "recipe": {"epochs": 4},
        "seeds": 2,
        "variants": {"standard": STANDARD},
        **ALL_BUT_THEORY,
        "ridge": {},
        "theory": {},
        "figures": [figure],
    }
    datasets = {
        "digits": {"source": "digits"},
        "gmm": {"source": "gmm", "k": 2, "sigma_sep": 1},
        "coherence": {"source": "coherence", "embedding": "exact_copy", "sweep": {"t": [1, 2]}},
    }
    return {"datasets": datasets, "studies": {"s": study | changes}}


def check(config):
    check_figures(parse_config(copy.deepcopy(config)))


TWO_SIGMAS = "a W-asymmetric variant with at least two values of sigma_F (sweep: {scheme.sigma_F: [0, 1]})"
REGIMES = "W-asymmetric variants with sigma_F 0 and with sigma_F of at least 1 (sweep: {scheme.sigma_F: [0, 1]})"
EPOCHS = "networks of several epochs: list some below the last in studies.s.snapshots"
FIXED = "a variant with fixed weights (scheme.sigma_F above 0) in studies.s.variants"
ON_COHERENCE = {
    "dataset": "coherence_t1",
    "network": {"name": "coherence_student"},
    "ridge": None,
    "theory": None,
    "identification": None,
}
SIGMA_MLP = {"s": {**STANDARD, "network": {"activation": "sigma"}}}

# figure, changes of the study, what the figure needs
CASES = [
    ("99", {}, "studies.s.figures names '99'; figures that can be drawn are 3a, 3b, 3c, 4"),
    ("4", {"interpolation": None}, "drawn from curves.csv and needs studies.s.interpolation; add interpolation: {}"),
    ("thm4.4", {"theory": None}, "drawn from gram_deviation.csv and needs studies.s.theory; add theory: {}"),
    ("3a", {}, TWO_SIGMAS),
    ("3a", {"variants": {"a": w(0), "b": w(1)}}, TWO_SIGMAS),
    ("3b", {"variants": {"w": w(1)}}, TWO_SIGMAS),
    ("8", {"variants": {"s": {"scheme": {"name": "syre", "sigma_F": 1}}}}, TWO_SIGMAS),
    ("9", {"variants": {"w": w(1)}}, TWO_SIGMAS),
    ("3c", {"variants": {"w": w(0, 1)}}, EPOCHS),
    ("3c", {"variants": {"w": w(0, 0.5)}, "snapshots": [0]}, REGIMES),
    ("3c", {"variants": {"w": w(1, 2)}, "snapshots": [0]}, REGIMES),
    ("7", {"snapshots": [9]}, EPOCHS),
    ("21", {}, EPOCHS),
    ("4", ON_COHERENCE, "data with classes in studies.s.dataset, which has real targets"),
    ("4", {"interpolation": {"splits": ["test"]}}, "train among studies.s.interpolation.splits"),
    ("4b", {"interpolation": {"aligned": False}}, "set studies.s.interpolation.aligned to true and add matching"),
    ("20", {"interpolation": {"splits": ["test"]}}, "train among studies.s.interpolation.splits"),
    ("5", {"variants": {"w": w(0, 1)}}, "data of intrinsic dimension k in studies.s.dataset (source: gmm"),
    ("13", {"dataset": "gmm"}, REGIMES),
    ("15", {"variants": {"w": w(0, 1)}}, "data of intrinsic dimension k in studies.s.dataset (source: gmm"),
    ("15", {"dataset": "gmm", "variants": {"w": w(0, 0.9)}}, REGIMES),
    ("6", {}, "a coherence data set with at least two values of t (sweep: {t: [1, 10]}) in studies.s.dataset"),
    ("6", ON_COHERENCE, "a coherence data set with at least two values of t"),
    (
        "6",
        ON_COHERENCE | {"dataset": "coherence", "interpolation": {"splits": ["train"]}},
        "test among studies.s.interpolation.splits",
    ),
    ("10", {"variants": {"w": w(0, 1)}}, "a W-asymmetric variant with at least two values of fixed_fraction"),
    ("16", {"variants": {"w": w(0, 1)}}, "a variant with scheme.name: standard (and no sigma activation)"),
    ("16", {"variants": SIGMA_MLP, "ridge": None}, "a variant with scheme.name: standard (and no sigma activation)"),
    ("17", {"variants": {"w": w(1, 2)}}, "a W-asymmetric variant with sigma_F = 0 in studies.s.variants"),
    ("18", {"variants": {"w": w(0, 0.5)}}, "a W-asymmetric variant with sigma_F of at least 1 in studies.s.variants"),
    (
        "19",
        {"variants": {"s": {"scheme": {"name": "syre", "sigma_F": 0.5}}}},
        "a syre variant with sigma_F of at least 1 in studies.s.variants",
    ),
    ("ridge", {"ridge": {"beta": [0.01]}}, "at least two values in studies.s.ridge.beta"),
    ("thm4.4", {"variants": {"s": STANDARD, "d": SPARSE}}, "a variant whose masks D vary"),
    ("thm4.4", {"variants": {"w": w(0, 1, n_fixed=0)}}, "a variant whose masks D vary"),
    ("thm4.5", {}, FIXED),
    ("thm4.7", {"variants": {"w": w(0)}}, FIXED),
    ("thm4.8", {"variants": {"w": w(1, n_fixed=[0, 0, 0])}}, FIXED),
    ("thm5.1", {"variants": {"d": SPARSE}}, FIXED),
    ("sec4.5", {"variants": {"w": w(1)}}, TWO_SIGMAS),
    ("prop5.2", ON_COHERENCE, "data with classes in studies.s.dataset, which has real targets"),
]


@pytest.mark.parametrize(("figure", "changes", "words"), CASES, ids=[f"{f}-{n}" for n, (f, *_) in enumerate(CASES)])
def test_a_figure_that_the_study_cannot_give(figure, changes, words, refused):
    with refused("Config: studies.s.figures ", words):
        check(config(figure, **changes))


STUDENTS = {
    "widths": {"M": 3, "d": 4, "m": [3, 4, 5, 6, 7], "runs": 4, "uniform_pairs": 4},
    "ratios": {"M": [3, 4], "d": 4, "ratio": [1, 2, 3], "uniform_pairs": 4},
}
# figure, the study's teacher_student block, what the figure needs
STUDENT_CASES = [
    ("permutation-1", STUDENTS, "drawn from overlap.csv and needs studies.s.teacher_student.overlap; see presets"),
    ("permutation-6", STUDENTS, "learning_rates_runs.csv and needs studies.s.teacher_student.learning_rates"),
    ("permutation-10", STUDENTS, "at least two"),
    ("permutation-2", {"widths": {**STUDENTS["widths"], "m": [2, 3]}}, "at least three"),
    ("4", STUDENTS, "is drawn from networks trained on data, but studies.s trains students of a teacher"),
    ("permutation-7", STUDENTS, "is drawn from networks trained on data, but studies.s trains students of a teacher"),
]


@pytest.mark.parametrize(("figure", "block", "words"), STUDENT_CASES, ids=[case[0] for case in STUDENT_CASES])
def test_a_figure_that_the_students_cannot_give(figure, block, words, refused):
    with refused("Config: studies.s.figures ", words):
        check({"studies": {"s": {"teacher_student": block, "figures": [figure]}}})


def test_a_figure_of_students_is_refused_for_networks_on_data(refused):
    with refused("studies.s.teacher_student.widths; see presets/permutation.yaml for one"):
        check(config("permutation-2"))


# key of the teacher_student block, value, what the sentence says
STUDENT_CONFIGS = [
    ("widths", {"M": 6, "d": 5, "m": 7, "runs": 4}, "widths.d = 5 is below"),
    ("widths", {"M": 6, "d": 8, "runs": 4}, "widths lacks m, the students' widths"),
    ("widths", {"M": 6, "d": 8, "m": 7, "ratio": 2, "runs": 4}, "widths has both m and ratio"),
    ("widths", {"M": 6, "d": 8, "m": 7, "lr": 1, "c": 1, "runs": 4}, "widths has both lr and c"),
    ("widths", {"M": 6, "d": 8, "m": 7}, "needs runs (students to train) or uniform_pairs"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 3}, "widths.runs = 3 must be a multiple of 2"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "steps": 0}, "widths.steps = 0 is not allowed"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "lr": -1}, "widths"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "init_std": "big"}, "widths"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "lambdas": [0, 0.5, 0.9]}, "widths.lambdas must rise from 0 to 1"),
    ("widths", [{"M": 6, "d": 8, "m": 7, "runs": 4}, {"M": 6, "d": 8, "m": 7}], "widths[1] needs runs"),
    ("ratios", {"M": 6, "d": 8, "ratio": 0.5, "uniform_pairs": 4}, "m = 3 neurons, fewer than the teacher's M = 6"),
    ("ratios", {"M": 6, "d": 8, "ratio": 2, "runs": 4}, "so it needs studies.s.teacher_student.ratios.uniform_pairs"),
    ("ratios", {"M": 6, "d": 8, "ratio": [2, 2.01], "uniform_pairs": 4}, "has the same student twice"),
    ("ratios", {"M": 6, "d": 8, "ratio": 0.01, "uniform_pairs": 4}, "students without neurons"),
    ("sparsity", {"M": 6, "d": 8, "m": 8, "uniform_pairs": 4}, "so it needs studies.s.teacher_student.sparsity.runs"),
    ("doubled_types", {"M": 6, "d": 8, "m": list(range(1, 10_003)), "runs": 2}, "10002 combinations, more than 10000"),
    ("ratios", {"M": 6, "d": 8, "ratio": 50_000, "uniform_pairs": 4}, "students of 300000 neurons, more than 100000"),
    ("widths", {"M": 1, "d": 8, "m": 7, "runs": 4}, "widths.M = 1 has no barriers"),
    ("column", {"M": 3, "d": 8, "m": 7, "runs": 4}, "column.M must be 1"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "stop_below": 1e-3}, "widths.stop_below = 0.001 is not allowed"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "init_std": 1e160}, "widths"),
    ("widths", {"M": 6, "d": 8, "m": 7, "runs": 4, "lr": 1e308}, "widths"),
    ("widths", {"M": 6, "d": 64, "m": 7, "runs": 100, "batch": 1000}, "takes more than 4 GB of inputs"),
    (
        "widths",
        [{"M": 6, "d": 8, "m": [7, 8], "runs": 4}, {"M": 6, "d": 8, "m": 8, "c": 2, "runs": 2}],
        "widths has students of M = 6, d = 8, m = 8 (gd) in two grids",
    ),
    (
        "widths",
        [{"M": 6, "d": 8, "m": 7, "uniform_pairs": 4}, {"M": 6, "d": 8, "m": 7, "uniform_pairs": 2}],
        "m = 7 (uniform) in two grids",
    ),
    ("overlap", {"M": 2000}, "overlap.M = 2000 exceeds 1000"),
    ("depths", {"M": 6}, "unknown key 'depths' at studies.s.teacher_student"),
    ("overlap", {"M": 6, "draws": 1}, "overlap.draws = 1 is not allowed"),
]


@pytest.mark.parametrize(("key", "value", "words"), STUDENT_CONFIGS, ids=range(len(STUDENT_CONFIGS)))
def test_a_wrong_grid_of_students(key, value, words, refused):
    with refused("Config: ", words):
        parse_config({"studies": {"s": {"teacher_student": {key: value}}}})


def test_gradient_descent_and_online_sgd_may_share_a_width():
    grid = {"M": 6, "d": 8, "m": 7, "runs": 4}
    parse_config(
        {"studies": {"s": {"teacher_student": {"widths": [{**grid, "uniform_pairs": 4}, {**grid, "batch": 8}]}}}}
    )


def test_whole_numbers_and_fractions_are_one_setting():
    def grid(c):
        block = {"widths": {"M": 6, "d": 8, "m": 7, "runs": 4, "c": c}}
        return json.dumps(parse_config({"studies": {"s": {"teacher_student": block}}}).studies["s"].teacher_student)

    assert grid(1) == grid(1.0) == grid([1])


def test_a_study_of_students_trains_no_variants(refused):
    with refused("unknown key 'seeds' at studies.s; known keys are figures, teacher_student"):
        parse_config({"studies": {"s": {"teacher_student": STUDENTS, "seeds": 4}}})
    with refused("studies.s.teacher_student asks for nothing"):
        parse_config({"studies": {"s": {"teacher_student": {}}}})


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_can_give_its_figures(path):
    check(yaml.safe_load(path.read_text()))


def test_what_a_figure_needs_is_enough():
    rich = {
        "w": w(0, 1),
        "fractions": {
            "scheme": {"name": "w_asymmetric", "sigma_F": 1},
            "sweep": {"scheme.fixed_fraction": [0.1, 0.2]},
        },
        "standard": STANDARD,
        "syre": {"scheme": {"name": "syre", "sigma_F": 1}},
    }
    # Figures of students and of networks' widths are in tests/unit/figures/test_figures_permutation.py.
    for figure in (figure for figure in FIGURES if not figure.startswith("permutation-")):
        if figure == "6":
            check(config(figure, **ON_COHERENCE | {"dataset": "coherence"}))
        else:
            dataset = "gmm" if figure in ("5", "11", "13", "15") else "digits"
            analyses = {"centre_gaps": {}} if figure == "11" else {}
            check(config(figure, variants=rich, snapshots=[0], dataset=dataset, **analyses))


def test_only_known_figures_have_needs():
    assert set(NEEDS) <= set(FIGURES)
