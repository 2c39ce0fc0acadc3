"""A config is either expanded as written or refused with one sentence that names the key and the value."""

import copy
import re
from pathlib import Path

import pytest
import yaml

from symlab.errors import UserError
from symlab.pipeline.config import parse_config

ROOT = Path(__file__).parents[2]
CONFIGS = [ROOT / "config.yaml", *sorted((ROOT / "workflow/presets").glob("*.yaml"))]
TINY = yaml.safe_load((ROOT / "workflow/presets/tiny.yaml").read_text())
DIGITS, STUDENTS = "studies.digits", "studies.students.teacher_student"
SCHEDULE = f"{DIGITS}.recipe.schedule"
GONE = object()


def change(changes):
    """The tiny preset with values at dotted keys."""
    config = copy.deepcopy(TINY)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        block = config
        for parent in parents:
            block = block.setdefault(parent, {})
        if value is GONE:
            del block[last]
        else:
            block[last] = value
    return config


def parse(changes):
    return parse_config(change(changes))


def study(**changes):
    """The study of networks of the tiny preset after changes of its keys."""
    return parse({f"{DIGITS}.{key}": value for key, value in changes.items()}).studies["digits"]


def mirrored(mirror):
    return {"scheme": {"name": "dcs", "mirrors": {"*": mirror}}}


# Key, value, and words of the sentence besides the key and the value, or in their place where they begin with the key.
WRONG = [
    ("device", "tpu", "cuda"),
    ("results", ""),
    ("checkpoint_minutes", 0),
    ("style.dpi", 10, "50"),
    ("datasets.digits.source", "imagenet", "cifar10"),
    ("datasets.gmm", {"source": "gmm", "k": 0}, "datasets.gmm.k = 0"),
    ("studies", {}),
    ("studies.Digits", {}),
    (f"{DIGITS}.dataset", "mnist", "digits"),
    (f"{DIGITS}.seeds", 3, "2"),
    (f"{DIGITS}.snapshots", [-1], f"{DIGITS}.snapshots.0 = -1"),
    (f"{DIGITS}.network.name", "mlpp", "vit"),
    (f"{DIGITS}.network.widths", [0], f"{DIGITS}.network.widths.0 = 0"),
    (f"{DIGITS}.network", {"name": "resnet20"}, f"{DIGITS}.", "channels", "digits"),
    (f"{DIGITS}.init", {"name": "zeros"}, f"{DIGITS}.init.name = 'zeros'", "lecun"),
    (f"{DIGITS}.recipe.epochs", "four"),
    (f"{DIGITS}.recipe.lr", "1e-3", "0.001"),
    (SCHEDULE, {"name": "linear"}, f"{SCHEDULE}.name = 'linear'", "cosine"),
    (f"{DIGITS}.variants.w.recipe", {"batch_size": 0}, f"{DIGITS}.variants.w.recipe.batch_size = 0"),
    (f"{DIGITS}.variants.w.scheme.name", "masked", "w_asymmetric"),
    (f"{DIGITS}.variants.w.scheme.n_fixed", [8, 4, 99], f"{DIGITS}.variants.w", "n_fixed", "99"),
    (
        f"{DIGITS}.variants.w.sweep",
        {"scheme.sigma_F": [1], "recipe.lrr": [1]},
        "unknown key",
        f"{DIGITS}.variants.w.recipe.lrr",
    ),
    (f"{DIGITS}.variants.w.sweep", {"scheme.sigma_F": 1}, f"{DIGITS}.variants.w.sweep", "lists"),
    (f"{DIGITS}.variants.w.sweep", {"scheme.sigma_F": [0, 0]}, f"{DIGITS}.variants.w", "w_sigma_F0"),
    (f"{DIGITS}.matching.method", "weights", "activation"),
    (f"{DIGITS}.interpolation.lambdas", 4, "odd"),
    (f"{DIGITS}.identification.models", 0),
    (f"{DIGITS}.matching", GONE, f"{DIGITS}.interpolation.aligned needs {DIGITS}.matching"),
    (f"{DIGITS}.figures", ["identifiability-99"], f"{DIGITS}.figures", "identifiability-99", "identifiability-4"),
    (f"{DIGITS}.figures", ["identifiability-6"], f"{DIGITS}.figures", "identifiability-6", "coherence"),
    ("studies.students.figures", ["permutation-3"], "studies.students.figures", "permutation-3", "ratios"),
    (f"{STUDENTS}.widths.d", 3, f"{STUDENTS}.widths", "d = 3", "M = 4"),
    (f"{STUDENTS}.overlap.draws", 5, "100"),
    (f"{STUDENTS}.widths", {"M": 4, "d": 4, "ratio": [0.1]}, "without neurons; raise ratio"),
    (f"{STUDENTS}.widths.M", 1, f"{STUDENTS}.widths is not allowed: M = 1 has no barriers"),
    ("studies.origin.saddle_escape.polygons.N", [7], "N = 7 is not an even divisor of 720"),
    ("studies.collapse.neural_collapse.runs.L", [3, 2], "studies.collapse.neural_collapse.runs is", "L must rise"),
    ("studies.collapse.dataset", GONE, "runs needs data; add studies.collapse.dataset"),
    (f"{DIGITS}.variants.w.sweep", {"scheme.sigma_F": ["a/b"]}, "scheme.sigma_F lists 'a/b'", "a folder's name"),
    (f"{DIGITS}.variants.w.sweep", {"scheme.name.x": [1]}, "names 'scheme.name.x', but 'name' holds no keys"),
    (f"{DIGITS}.variants.w", mirrored({"P": "blocks"}), "scheme.mirrors.*", "kind blocks needs block"),
    (f"{DIGITS}.variants.w", mirrored({"P": "matrix"}), "kind matrix needs file"),
    (f"{DIGITS}.variants.w", mirrored({"P": "rows", "axis": 0}), "kind rows takes no axis"),
    (f"{DIGITS}.variants.w", mirrored({"P": "pairs", "pairs": [[0, 1], [1, 2]]}), "a neuron stands in two pairs"),
]
MISSING = [f"{DIGITS}.{key}" for key in ("network", "recipe", "recipe.epochs", "seeds", "variants")]


@pytest.mark.parametrize(("key", "value", "words"), [(key, value, words) for key, value, *words in WRONG])
def test_a_wrong_value_is_told_with_its_key(key, value, words):
    with pytest.raises(UserError) as raised:
        parse({key: value})
    sentence = str(raised.value)
    assert sentence.startswith("Config: ") and "\n" not in sentence
    instead = any("studies." in word or "datasets." in word for word in words)
    shown = [] if instead else [key] if isinstance(value, dict) else [key, repr(value)]
    for word in [*words, *shown]:
        assert word in sentence


# A key that is misspelt, what stands in its place, and the key that is meant.
TYPOS = [
    ("studeis", {}, "studies"),
    (f"{DIGITS}.netwrok", {"name": "mlp"}, "network"),
    ("studies.students.teacher_studnet", {}, "teacher_student"),
    (f"{STUDENTS}.widths.runz", 2, "runs"),
    ("datasets.digits.sede", 1, "seed"),
    (f"{DIGITS}.network.nmae", "mlp", "name"),
    (f"{DIGITS}.recipe.epohcs", 4, "epochs"),
    (SCHEDULE, {"nmae": "cosine"}, f"{SCHEDULE}.nmae", "name"),
    (SCHEDULE, {"name": "warmup", "wramup_epochs": 2}, f"{SCHEDULE}.wramup_epochs", "warmup_epochs"),
    (f"{DIGITS}.variants.w.shceme", {}, "scheme"),
    (f"{DIGITS}.variants.w.scheme.n_fixd", [8, 4, 16], "n_fixed"),
    (f"{DIGITS}.variants.w.recipe", {"momntum": 1}, f"{DIGITS}.variants.w.recipe.momntum", "momentum"),
    (f"{DIGITS}.interpolation.lamdas", 5, "lambdas"),
    (f"{DIGITS}.variants.w.swep", {}, "sweep"),
    ("datasets.digits.swep", {}, "sweep"),
]


@pytest.mark.parametrize(("key", "value", "names"), [(key, value, names) for key, value, *names in TYPOS])
def test_a_misspelt_key_is_told_first_with_the_one_that_is_meant(key, value, names):
    """That what is meant is missing is true of every typo, and helps nobody."""
    *place, meant = names
    config = change({key: value})
    if not place:
        *parents, last = key.split(".")
        block = config
        for parent in parents:
            block = block[parent]
        block[last] = block.pop(meant, value)
    with pytest.raises(UserError) as raised:
        parse_config(config)
    sentence = str(raised.value)
    assert sentence.startswith(f"Config: unknown key {(*place, key)[0]}; the nearest known key is {meant}, of ")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("study", "figure", "key"),
    [
        ("digits", "identifiability-4", f"{DIGITS}.interpolation"),
        ("digits", "identifiability-12", f"{DIGITS}.identification"),
        ("students", "permutation-3", f"{STUDENTS}.ratios"),
        ("students", "identifiability-4", "studies.students.interpolation and what networks are trained by"),
    ],
)
def test_a_figure_whose_measure_is_off_names_the_key_to_add(study, figure, key):
    off = {**dict.fromkeys((f"{DIGITS}.interpolation", f"{DIGITS}.identification"), GONE), f"{DIGITS}.figures": []}
    with pytest.raises(UserError, match=rf"lists {figure}, which needs the table .*; add {re.escape(key)}[ ,]"):
        parse({**off, f"studies.{study}.figures": [figure]})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (f"{DIGITS}.figures", "identifiability-4", "list"),
        (f"{DIGITS}.figures", ["identifiabilty-4"], "the nearest known figure is identifiability-4"),
        (STUDENTS, [], "widths"),
    ],
)
def test_a_block_of_another_form_and_a_misspelt_figure_are_told(key, value, words):
    with pytest.raises(UserError, match=f"^Config: {re.escape(key)} .*{words}"):
        parse({key: value})


LISTED = {"source": "coherence", "embedding": "exact_copy", "t": 2}


@pytest.mark.parametrize(
    ("source", "experiment", "reason"),
    [
        (LISTED, "neural_collapse.runs", "classes"),
        (LISTED, "mirror_symmetry.sparse_networks", "classes"),
        ({"source": "imdb", "context": 8}, "mirror_symmetry.sparse_networks", "8 inputs"),
        ({"source": "imdb", "context": 9}, "mirror_symmetry.sparse_networks", "9 inputs"),
        ({"source": "digits"}, "centre_gaps", "subspace"),
        (LISTED, "centre_gaps", None),
        ({"source": "digits"}, "mirror_symmetry.sparse_networks", None),
    ],
)
def test_data_that_an_experiment_cannot_read_are_told_before_any_job(source, experiment, reason):
    settings = {"network": "rn1", "L": [2], "per_class": 3} if experiment.endswith("runs") else {}
    changes = {"datasets.own": source, "studies.own.dataset": "own", f"studies.own.{experiment}": settings}
    if reason is None:
        assert parse(changes).studies["own"].datasets() == ["own"]
        return
    with pytest.raises(UserError, match=rf"studies\.own\.{re.escape(experiment)} on data set own: .*{reason}"):
        parse(changes)


RESNET = {"name": "layernorm_resnet", "depth": 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dataset": "blobs", "recipe.augment": {}, "figures": []}, r"variants\.w: recipe\.augment flips and crops"),
        ({"variants.w.scheme.name": "w_asymmetric_heads", "variants.w.scheme.heads": 3}, r"heads = 3, .* no attention"),
        ({"network": RESNET, "variants": {"a": {"scheme": {"name": "standard"}}}}, "a chain of linear maps, which lay"),
    ],
)
def test_parts_of_a_study_that_do_not_go_together_are_told(changes, words):
    config = change({f"{DIGITS}.{key}": value for key, value in changes.items()})
    config["datasets"]["blobs"] = {"source": "gmm", "k": 2, "sigma_sep": 1}
    with pytest.raises(UserError, match=words):
        parse_config(config)


def test_measures_that_a_scheme_has_no_formula_for_are_refused():
    with pytest.raises(UserError, match=rf"{DIGITS}\.theory, variant w: the moments of D under scheme.name = dcs are"):
        study(theory={}, **{"variants.w": {"scheme": {"name": "dcs", "mirror": "rows"}}})


def test_data_that_a_grid_does_not_name_need_not_fit_it():
    grid = {"network": "rn1", "dataset": "digits", "L": [2], "per_class": 3}
    study = {"dataset": ["digits", "own"], "neural_collapse": {"runs": grid}}
    assert parse({"datasets.own": LISTED, "studies.own": study}).studies["own"].datasets() == ["digits", "own"]


def test_errors_name_the_file():
    with pytest.raises(UserError, match=r"^Config my\.yaml: unknown key colour; known keys are results, "):
        parse_config({**TINY, "colour": 1}, "Config my.yaml")


@pytest.mark.parametrize("key", MISSING)
def test_a_missing_key_is_named(key):
    with pytest.raises(UserError, match=rf"^Config: {re.escape(key)} is missing; add it\.$"):
        parse({key: GONE})


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_that_is_shipped_is_right(path):
    project = parse_config(yaml.safe_load(path.read_text()))
    assert project.studies


def test_sweeps_make_a_variant_for_each_combination():
    swept = {"scheme.sigma_F": [0, 1.5], "network.widths": [[8, 8], [32, 32]], "scheme.n_fixed": [[4, 2, 2]]}
    block = {"scheme": {"name": "w_asymmetric"}, "sweep": swept}
    variants = study(**{"variants.w": block}).variants
    assert list(variants) == [
        f"w_sigma_F{sigma}_widths{widths}_n_fixed4-2-2" for sigma in ("0", "1.5") for widths in ("8-8", "32-32")
    ]
    last = variants["w_sigma_F1.5_widths32-32_n_fixed4-2-2"]
    assert (last.family, last.scheme.sigma_F, last.network.widths) == ("w", 1.5, [32, 32])


def test_members_of_a_swept_data_set_and_several_data_sets_name_the_variants():
    config = change({f"{DIGITS}.figures": []})
    config["datasets"]["gmm"] = {"source": "gmm", "sigma_sep": 1, "sweep": {"k": [2, 8]}}
    block = config["studies"]["digits"]
    block["variants"] = {"standard": {"scheme": {"name": "standard"}}}
    block["dataset"] = "gmm"
    project = parse_config(config)
    assert list(project.datasets) == ["digits", "gmm_k2", "gmm_k8"] and project.datasets["gmm_k8"].k == 8
    assert {name: v.dataset for name, v in project.studies["digits"].variants.items()} == {
        "standard_k2": "gmm_k2",
        "standard_k8": "gmm_k8",
    }
    block["dataset"] = ["digits", "gmm_k2"]
    assert list(parse_config(config).studies["digits"].variants) == ["standard_digits", "standard_gmm_k2"]


def test_a_variant_changes_keys_of_the_study():
    variant = study(**{"variants.w.recipe": {"lr": 0.5}, "variants.w.network": {"activation": "gelu"}}).variants[
        "w_sigma_F1"
    ]
    assert (variant.recipe.lr, variant.recipe.epochs) == (0.5, 4)
    assert (variant.network.activation, variant.network.widths) == ("gelu", [32, 32])


def test_specs_hold_what_was_asked_for_and_no_default():
    found = study()
    spec = found.training_spec("w_sigma_F1", 0)
    assert spec["recipe"] == {"epochs": 4} and spec["network"] == {"name": "mlp", "widths": [32, 32]}
    assert (spec["study"], spec["variant"], spec["epochs"]) == ("digits", "w_sigma_F1", [0, 1, 4])
    assert spec["replicas"] == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert found.settings["matching"].spec() == {"n_random": 10}
    # A default that is written out is the default.
    assert study(**{"recipe.batch_size": 64}).training_spec("w_sigma_F1", 0) == spec


def test_networks_of_one_kind_at_one_data_set_share_a_shape_and_are_told_once():
    variants = {
        "a": {"scheme": {"name": "standard"}},
        "b": {"scheme": {"name": "syre", "sigma_F": 1}},
        "c": {"scheme": {"name": "standard"}, "network": {"widths": [8, 8]}},
    }
    found = study(variants=variants, figures=[])
    shapes = [found.variants[name].shape for name in "abc"]
    assert shapes[0] == shapes[1] != shapes[2] and set(found.shapes()) == set(shapes)
    assert found.about().count("32") == 2 and found.about().count("8") >= 2


def test_a_raised_revision_enters_the_spec(monkeypatch):
    recipe = study().variants["w_sigma_F1"].recipe
    monkeypatch.setattr(type(recipe), "revision", 2)
    assert recipe.spec() == {"revision": 2, "epochs": 4}
    assert type(recipe).from_spec(recipe.spec()) == recipe


def test_seeds_come_in_blocks_of_which_more_seeds_change_only_the_last():
    few, many = study(seeds=6), study(seeds=8)
    assert few.blocks() == many.blocks() == [0, 1]
    assert few.training_spec("w_sigma_F1", 0) == many.training_spec("w_sigma_F1", 0)
    assert few.replicas(1) == [[0, 4], [0, 5]]


def test_a_scale_is_that_of_training_and_a_range_of_each_number_of_its_experiments():
    runs = [{"network": "rn1", "L": [2, 3], "seeds": seeds, "per_class": 10, "dataset": "digits"} for seeds in (3, 2)]
    project = parse({"studies.collapse.neural_collapse.runs": runs, "studies.mirrors.mirror_symmetry.lines": {}})
    scales = {name: of.scale() for name, of in project.studies.items()}
    assert scales["digits"] == "2 pairs a variant, 4 epochs"
    assert scales["collapse"] == "10 samples a class, 2 to 3 seeds"
    assert scales["mirrors"] == "1,000 steps"


def test_a_stand_in_is_told_with_the_scale_and_changes_no_network():
    plain, told = study(), study(stand_in="digits, not MNIST")
    assert told.scale() == f"{plain.scale()}, a stand-in (digits, not MNIST)"
    assert told.training_spec("w_sigma_F1", 0) == plain.training_spec("w_sigma_F1", 0)
    with pytest.raises(UserError, match=r"stand_in"):
        study(stand_in="")


def test_the_caller_s_config_stays_as_it_was():
    config = copy.deepcopy(TINY)
    parse_config(config)
    assert config == TINY


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("studies.origin.saddle_escape.polygons.widths", [2, 4, 2]),
        ("studies.students.teacher_student.widths.m", [2, 2]),
        ("studies.collapse.neural_collapse.runs.L", [1, 2, 1]),
    ],
)
def test_a_value_that_is_listed_twice_is_told_with_its_key(key, values):
    with pytest.raises(UserError, match=rf"{re.escape(key)} = .* is not allowed: a value is listed twice"):
        parse({key: values})
