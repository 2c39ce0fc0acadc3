"""Wrong configs, each with the sentence it gets. Single keys of wrong values are in tests/unit/test_config.py."""

import datetime
import math
from pathlib import Path

import pytest
import yaml

from symlab.config import parse_config

STANDARD = {"scheme": {"name": "standard"}}
W = {"scheme": {"name": "w_asymmetric", "sigma_F": 1, "n_fixed": 4}}


def config():
    return {
        "datasets": {"digits": {"source": "digits"}, "gmm": {"source": "gmm", "k": 2, "sigma_sep": 1, "d": 16}},
        "studies": {
            "s": {
                "dataset": "digits",
                "network": {"name": "mlp", "widths": [8, 8]},
                "recipe": {"epochs": 2},
                "seeds": 2,
                "variants": {"standard": STANDARD},
            }
        },
    }


def test_the_config_that_the_cases_change_is_right():
    assert list(parse_config(config()).studies["s"].variants) == ["standard"]


def test_results_may_lie_anywhere_else(tmp_path):
    for results in ("results", "results/mine", "../elsewhere", str(tmp_path), "with space"):
        assert parse_config(config() | {"results": results}).results == results


NO_MAPPING = [(None, "NoneType"), ([], "list"), ([("datasets", {})], "list"), ("digits", "str"), (3, "int")]


@pytest.mark.parametrize(("value", "kind"), NO_MAPPING, ids=[repr(value) for value, _ in NO_MAPPING])
def test_no_mapping(value, kind, refused):
    with refused(f"Config: it must be a mapping of keys to values, not a {kind}", "start it like config.yaml"):
        parse_config(value)


def bomb():
    """Nine lists deep, nine aliases each: 100 bytes a level, a billion values."""
    levels = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    levels += [
        f"{name}: &{name} [{', '.join([f'*{inner}'] * 9)}]" for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return yaml.safe_load("\n".join(levels))["i"]


def cycle():
    return yaml.safe_load("&a [*a]")


def nested():
    return yaml.safe_load("[" * 80 + "]" * 80)


# key, value (or what makes one that cannot be printed; ... takes the key away), words of the sentence
CASES = [
    # what the top level must hold
    ("datasets", ..., ["studies.s.dataset names 'digits', which is not among datasets ()"]),
    ("studies", ..., ["the top level lacks a key: 'studies' is a required property"]),
    ("studies", None, ["studies = None is not allowed", "not of type 'object'"]),
    ("studies", [], ["studies = [] is not allowed", "not of type 'object'"]),
    ("studies.s", ["dataset"], ["studies.s = ['dataset'] is not allowed", "not of type 'object'"]),
    ("studies.s", {}, ["studies.s lacks a key: 'dataset' is a required property"]),
    ("studies.s.variants", [STANDARD], ["studies.s.variants", "not of type 'object'"]),
    ("datasets.digits", "digits", ["datasets.digits = 'digits' is not allowed", "not of type 'object'"]),
    # keys that are no names
    (1, 2, ["unknown key 1 at the top level", "known keys are"]),
    ("studies.s", {1: 2, "x": 3}, ["unknown key 1 at studies.s", "known keys are centre_gaps"]),
    ("studies.s", {None: 2}, ["unknown key None at studies.s"]),
    ("studies.s", {"\x1b[2J\n": 2}, ["unknown key '\\x1b[2J\\n' at studies.s"]),
    ("studies.s", {"x" * 10_000: 2}, ["unknown key 'xxxxx", "...", "at studies.s"]),
    # names that become folders
    ("studies.a/b", {}, ["the name 'a/b' at studies", "lower-case letters, digits and underscores"]),
    ("studies...", {}, ["the name '..' at studies", "starts with a letter"]),
    ("studies.s.variants.../up", STANDARD, ["the name '../up' at studies.s.variants"]),
    ("datasets.a b", {"source": "digits"}, ["the name 'a b' at datasets"]),
    ("datasets.ä", {"source": "digits"}, ["the name 'ä' at datasets"]),
    ("datasets.a\n", {"source": "digits"}, ["the name 'a\\n' at datasets"]),
    (f"datasets.{'a' * 61}", {"source": "digits"}, ["aaa' is too long", "it becomes a folder's name"]),
    ("studies.null", {}, ["studies = 'null' is not allowed"]),
    # values of other types
    ("studies.s.recipe.lr", math.nan, ["studies.s.recipe.lr = nan is not allowed", "Learning rate"]),
    ("studies.s.recipe.lr", -math.inf, ["studies.s.recipe.lr = -inf is not allowed"]),
    ("studies.s.recipe.lr", "0.1", ["studies.s.recipe.lr = '0.1' is not allowed", "not of type 'number'"]),
    ("studies.s.seeds", "2", ["studies.s.seeds = '2' is not allowed", "not of type 'integer'"]),
    ("studies.s.seeds", True, ["studies.s.seeds = True is not allowed"]),
    ("studies.s.seeds", -2, ["studies.s.seeds = -2 is not allowed", "minimum of 2"]),
    ("studies.s.seeds", None, ["studies.s.seeds = None is not allowed"]),
    ("datasets.digits.seed", -1, ["datasets.digits.seed = -1 is not allowed", "minimum of 0"]),
    (
        "device",
        datetime.date(2026, 1, 1),
        ["device = datetime.date(2026, 1, 1) is not allowed", "'auto', 'cpu', 'cuda'"],
    ),
    ("data_dir", 5, ["data_dir = 5 is not allowed", "Folder looked in first"]),
    ("data_dir", b"/data", ["data_dir = b'/data' is not allowed"]),
    ("studies.s.network.widths", {8, 9}, ["studies.s.network.widths = {8, 9} is not allowed", "not of type 'array'"]),
    ("studies.s.figures", "12", ["studies.s.figures = '12' is not allowed", "not of type 'array'"]),
    ("studies.s.dataset", [], ["studies.s.dataset = [] is not allowed"]),
    ("studies.s.dataset", ["digits", "digits"], ["studies.s.dataset = ['digits', 'digits']", "non-unique"]),
    ("studies.s.figures", ["x" * 9_000] * 2, ["studies.s.figures = ['xxx", "...", "non-unique"]),
    ("checkpoint_minutes", 0, ["checkpoint_minutes = 0 is not allowed"]),
    # too much
    ("studies.s.seeds", 10**12, ["studies.s.seeds = 1000000000000 is not allowed", "maximum of 1000000"]),
    (
        "studies.s.seeds",
        10**6,
        ["would train 1 variants in 250000 jobs, more than 100000", "raise studies.s.seeds_per_job"],
    ),
    (
        "studies.s.variants.w",
        {**W, "sweep": {f"recipe.{key}": list(range(1, 102)) for key in ("lr", "epochs")}},
        ["studies.s.variants.w.sweep has 10201 combinations, more than 10000"],
    ),
    ("studies.s.snapshots", bomb, ["it holds more than 100000 values (aliases counted where they are used)"]),
    ("studies.s.snapshots", cycle, ["nested more than 50 levels deep, or an alias contains itself"]),
    ("studies.s.snapshots", nested, ["nested more than 50 levels deep"]),
    # where results go
    ("results", "", ["results = '' is not allowed", "Folder that everything is written to"]),
    ("results", 7, ["results = 7 must be text; put it in quotes"]),
    ("results", "/", ["results = '/' is / itself", "name a folder for the results alone"]),
    ("results", "/tmp/..", ["results = '/tmp/..' is / itself"]),
    ("results", ".", ["results = '.' is", "itself; name a folder for the results alone"]),
    ("results", "~/results", ["results = '~/results' starts with ~", "write the whole path"]),
    ("results", "s3://bucket/results", ["results = 's3://bucket/results' is a URL; name a folder of this machine"]),
    ("results", "{study}", ["results = '{study}' holds braces", "write a plain folder's name"]),
    ("results", "re\nsults", [r"results = 're\nsults' holds braces, control characters or outer spaces"]),
    ("results", "results ", ["results = 'results ' holds braces, control characters or outer spaces"]),
    ("results", __file__, ["cannot be made, because", "test_bad_config.py is a file; name a folder"]),
    ("results", f"{__file__}/deeper/still", ["cannot be made, because", "test_bad_config.py is a file"]),
    (
        "results",
        str(Path(__file__).parents[3] / "workflow" / "symlab" / "results"),
        ["lies within the workflow's code; name a folder outside"],
    ),
    # sweeps
    ("datasets.gmm.sweep", {"kk": [1, 2]}, ["unknown key 'kk'", "in datasets.gmm"]),
    ("datasets.gmm.sweep", {1: [2]}, ["datasets.gmm.sweep = 1 must be text; put it in quotes"]),
    ("datasets.gmm.sweep", {"k": 2}, ["datasets.gmm.sweep.k = 2 is not allowed", "not of type 'array'"]),
    ("datasets.gmm.sweep", {"k": []}, ["datasets.gmm.sweep.k = [] is not allowed", "non-empty"]),
    ("datasets.gmm.sweep", {"k": [2, math.nan]}, ["datasets.gmm", "k = nan is not allowed"]),
    ("datasets.gmm.sweep", {"": [2]}, ["unknown key ''"]),
    (
        "datasets.gmm.sweep",
        {"source": ["digits", "gm"]},
        ["datasets.gmm.k does not belong to digits; it takes split, seed"],
    ),
    (
        "studies.s.variants.w",
        {**W, "sweep": {"network.widths": [[8, "../8"], [9, 9]]}},
        ["studies.s.variants.w.sweep.network.widths lists [8, '../8'], which cannot be part of a folder's name"],
    ),
    (
        "studies.s.variants.w",
        {**W, "sweep": {"network.activation": ["x" * 41]}},
        ["studies.s.variants.w.sweep.network.activation lists a value of 41 letters, too long for a folder's name"],
    ),
    (
        "studies.s.variants",
        {"w": {**STANDARD, "sweep": {"recipe.epochs": [1, 2]}}, "w_epochs1": STANDARD},
        ["studies.s.variants.w_epochs1 expands to the name 'w_epochs1', which is taken already; rename one"],
    ),
    # keys that do not fit together
    ("datasets.digits.split", "official", ["datasets.digits.split = official, but digits have no official test set"]),
    ("datasets.gmm.k", 17, ["datasets.gmm.k = 17 exceeds datasets.gmm.d = 16; choose a smaller k"]),
    ("datasets.gmm.sweep", {"k": [2, 17]}, ["datasets.gmm.k = 17 exceeds datasets.gmm.d = 16"]),
    (
        "datasets.c",
        {"source": "coherence", "embedding": "exact_copy", "t": 11},
        ["datasets.c.t = 11 exceeds half of datasets.c.d = 20; choose t of 1 to 10"],
    ),
    ("datasets.c", {"source": "cifar10", "n_samples": 15}, ["datasets.c.n_samples = 15 must be a multiple of 10"]),
    (
        "studies.s.network",
        {"name": "coherence_student"},
        ["network.name = coherence_student has one output, but data set digits (source digits) has classes"],
    ),
    (
        "studies.s.network",
        {"name": "resnet20"},
        ["network.channels = 3, but the images of data set digits (source digits) have 1"],
    ),
    (
        "studies.s.network",
        {"name": "resnet20", "channels": 1, "norm_groups": 5},
        ["network.norm_groups = 5 does not divide the 16 channels"],
    ),
    (
        "studies.s.network",
        {"name": "vit", "channels": 1, "heads": 5},
        ["network.heads = 5 does not divide network.dim = 384"],
    ),
    (
        "studies.s.network",
        {"name": "vit", "channels": 1, "patch": 3},
        ["network.patch = 3 does not divide the 8 pixels of a side of the images of data set digits"],
    ),
    (
        "studies.s",
        {**config()["studies"]["s"], "dataset": "gmm", "network": {"name": "vit"}},
        ["network.name = vit reads images, but the samples of data set gmm (source gmm) are none"],
    ),
    ("studies.s.centre_gaps", {}, ["studies.s.centre_gaps needs synthetic data with a known subspace, which digits"]),
    ("style", {"palette": "mud"}, ["style.palette = 'mud' is not a seaborn palette; try colorblind"]),
    ("style", {"palette": "ch:s=1,x=2"}, ["style.palette = 'ch:s=1,x=2' is not a seaborn palette"]),
]


@pytest.mark.parametrize(
    ("key", "value", "words"), CASES, ids=[f"{n}-{key!r}"[:50] for n, (key, *_) in enumerate(CASES)]
)
def test_the_sentence_names_the_key_and_what_to_do(key, value, words, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = config()
    *parents, last = _parts(key)
    target = wrong
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[last]
    else:
        target[last] = value() if callable(value) else value
    with refused("Config: ", *words):
        parse_config(wrong)
    assert list(tmp_path.iterdir()) == []


def _parts(key):
    """A dotted key in parts; the last one may hold dots itself."""
    if not isinstance(key, str):
        return [key]
    known = ("datasets", "studies", "s", "digits", "gmm", "network", "recipe", "variants")
    parts = []
    while "." in key and key.partition(".")[0] in known:
        part, _, key = key.partition(".")
        parts.append(part)
    return [*parts, key]
