"""A config becomes studies, and a wrong one becomes a sentence."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from symlab.config import parse_config
from symlab.errors import UserError
from symlab.networks import SCHEMES

ROOT = Path(__file__).parents[2]
CONFIGS = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "presets").glob("*.yaml"))]


@pytest.fixture
def config():
    return yaml.safe_load((ROOT / "config.yaml").read_text())


def set_key(config, dotted, value):
    *parents, last = dotted.split(".")
    target = config
    for parent in parents:
        target = target[parent]
    target[last] = value


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_is_valid(path):
    project = parse_config(yaml.safe_load(path.read_text()))
    assert project.studies
    for study in project.studies.values():
        assert set(study.datasets()) <= set(project.datasets)


def test_sweeps_and_data_sets_multiply(config):
    gmm = parse_config(config).studies["gmm"]
    assert list(gmm.variants) == [f"w_sigma_F{sigma}_k{k}" for sigma in (0, 1) for k in (2, 8, 32)]
    variant = gmm.variants["w_sigma_F1_k8"]
    assert variant.scheme["sigma_F"] == 1 and variant.dataset == "gmm_k8" and variant.description["k"] == 8
    assert variant.recipe["lr"] == 0.001 and variant.network["norm"] == "layernorm"


def test_a_variant_changes_only_what_it_names(config):
    config["studies"]["digits"]["variants"]["standard"]["recipe"] = {"lr": 0.5}
    digits = parse_config(config).studies["digits"]
    assert digits.variants["standard"].recipe == {**digits.variants["syre"].recipe, "lr": 0.5}
    assert digits.variants["sigma_mlp"].network["activation"] == "sigma"
    assert digits.variants["sigma_mlp"].network["widths"] == [128, 128, 128]


def test_blocks_hold_whole_pairs_and_old_blocks_stay_when_seeds_are_added(config):
    config["studies"]["digits"] |= {"seeds": 6, "seeds_per_job": 4, "mask_seeds": 2}
    before = parse_config(config).studies["digits"]
    config["studies"]["digits"]["seeds"] = 12
    after = parse_config(config).studies["digits"]
    assert before.blocks() == [0, 1] and after.blocks() == [0, 1, 2]
    assert before.replicas(0) == after.replicas(0) == [[mask, seed] for mask in (0, 1) for seed in range(4)]
    assert before.replicas(1) == [[0, 4], [0, 5], [1, 4], [1, 5]]


def test_snapshots_end_with_the_last_epoch(config):
    digits = parse_config(config).studies["digits"]
    assert digits.epochs("standard") == [0, 1, 2, 5, 10, 20, 40, 60]
    config["studies"]["digits"]["recipe"]["epochs"] = 7
    assert parse_config(config).studies["digits"].epochs("standard") == [0, 1, 2, 5, 7]


def test_parsing_leaves_the_config_as_it_was(config):
    before = copy.deepcopy(config)
    parse_config(config)
    assert config == before


def test_image_networks_and_sources_take_their_defaults(config):
    config["datasets"] |= {"cifar": {"source": "cifar10"}, "small": {"source": "cifar10_jpeg", "n_samples": 500}}
    digits = config["studies"]["digits"]
    digits |= {"dataset": ["cifar", "small"], "network": {"name": "resnet20", "width_multiplier": 2}}
    digits["identification"] = None
    counts = {"groups.*": 0.25, "*": 0.125}
    digits["variants"] = {"w": {"scheme": {"name": "w_asymmetric", "sigma_F": 2, "fixed_fraction": counts}}}
    digits["recipe"] |= {"augment": {"crop": 2}, "precision": "bf16"}
    project = parse_config(config)
    assert project.datasets["cifar"] == {"source": "cifar10", "seed": 0, "split": "random", "n_samples": None}
    assert project.datasets["small"]["n_samples"] == 500
    variant = project.studies["digits"].variants["w_cifar"]
    assert variant.network == {"name": "resnet20", "width_multiplier": 2, "norm_groups": 1, "channels": 3}
    assert variant.recipe["augment"] == {"flip": True, "crop": 2} and variant.recipe["precision"] == "bf16"
    assert list(variant.scheme["fixed_fraction"].items()) == list(counts.items())
    assert variant.description["fixed_fraction"] == 0.25


def test_swap_costs_are_refused_for_networks_that_are_no_chain_of_linear_maps(config):
    config["studies"]["digits"] |= {
        "network": {"name": "vit", "channels": 1},
        "variants": {"s": {"scheme": {"name": "standard"}}},
    }
    with pytest.raises(UserError, match="identification needs networks that are a chain of linear maps"):
        parse_config(config)


def test_ridge_and_theory_say_which_networks_they_take(config, monkeypatch):
    digits = config["studies"]["digits"]
    digits |= {"ridge": {"reported": 0.1}, "theory": {"models": 4}}
    digits["network"]["norm"] = "batchnorm"
    del digits["variants"]["sigma_mlp"]
    study = parse_config(config).studies["digits"]
    assert study.ridge == {
        **{"beta": [0.001, 0.01, 0.1, 1], "reported": 0.1, "solver": "lbfgs"},
        **{"samples": 6000, "block": 128, "models": 1},
    }
    assert study.theory["models"] == 4 and study.theory["delta"] == 0.05
    digits["variants"]["syre"]["network"] = {"norm": "layernorm"}
    with pytest.raises(UserError, match=r"ridge needs network\.norm: batchnorm or none .* variant syre has layernorm"):
        parse_config(config)
    digits["variants"]["syre"]["network"] = {"widths": [8, 2, 8]}
    with pytest.raises(UserError, match=r"ridge swaps neurons, but variant syre has a layer of 2"):
        parse_config(config)
    monkeypatch.setitem(SCHEMES, "mine", "module:function")
    digits["variants"]["syre"] = {"scheme": {"name": "mine"}}
    with pytest.raises(UserError, match=r"theory knows the moments of D under .* has scheme\.name = mine"):
        parse_config(config)
    digits["variants"]["syre"] = {"scheme": {"name": "syre", "sigma_F": 1}}
    digits["variants"]["syre"]["network"] = {"activation": "sigma"}
    with pytest.raises(UserError, match=r"ridge needs network\.activation: gelu or relu, but variant syre has sigma"):
        parse_config(config)


def test_a_transformer_with_head_masks(config):
    digits = config["studies"]["digits"]
    digits |= {"network": {"name": "vit", "channels": 1}, "identification": None}
    digits["variants"] = {"w": {"scheme": HEADS}}
    variant = parse_config(config).studies["digits"].variants["w"]
    sizes = {"patch": 4, "dim": 384, "depth": 8, "heads": 6, "mlp_ratio": 4}
    assert variant.network == {"name": "vit", **sizes, "channels": 1}
    assert variant.scheme == HEADS and variant.description["sigma_F"] == 1
    digits["network"]["heads"] = 4
    with pytest.raises(UserError, match=r"scheme\.heads = 6 is not network\.heads = 4"):
        parse_config(config)


def test_new_keys_have_defaults_in_the_study_and_none_in_a_variant(config):
    digits = config["studies"]["digits"]
    digits["recipe"] |= {"augment": {}, "precision": "tf32", "batch_size": 32, "optimizer": "sgd", "momentum": 0.5}
    digits["variants"]["standard"]["recipe"] = {"schedule": {}}
    digits["variants"]["syre"]["recipe"] = {"augment": None}
    project = parse_config(config)
    study = project.studies["digits"]
    recipe = study.variants["standard"].recipe
    assert recipe["augment"] == {"flip": True, "crop": 4} and recipe["precision"] == "tf32"
    assert (recipe["batch_size"], recipe["optimizer"], recipe["momentum"]) == (32, "sgd", 0.5)
    assert recipe["schedule"] == {"name": "constant"}
    assert study.variants["syre"].recipe == {**study.variants["w_sigma_F1"].recipe, "augment": None}
    assert study.interpolation["samples"] is None and study.interpolation["repair"] is False
    gmm = project.studies["gmm"].variants["w_sigma_F0_k2"].recipe
    assert gmm["augment"] is None and gmm["precision"] == "float32" and gmm["schedule"] == {"name": "constant"}


HEADS = {"name": "w_asymmetric_heads", "sigma_F": 1, "heads": 6, "n_fixed": 12}

BAD = [
    ("reslts", "results", "unknown key 'reslts' at the top level; known keys are .*results"),
    ("studies.digits.recipe.epoch", 3, "unknown key 'epoch' at studies.digits.recipe"),
    ("studies.digits.recipe.epochs", "many", "studies.digits.recipe.epochs = 'many' is not allowed.*integer"),
    ("studies.digits.recipe.epochs", 0, "recipe.epochs = 0 is not allowed.*minimum"),
    ("studies.digits.recipe.lr", -1, "recipe.lr = -1 is not allowed"),
    ("studies.digits.recipe.batch_size", 1.5, "batch_size = 1.5 is not allowed"),
    ("studies.digits.recipe.schedule", {"name": "cosin"}, "'cosin' is not one of"),
    ("studies.digits.network.widths", [128, -1], "widths.1 = -1 is not allowed"),
    ("studies.digits.network.widths", [], r"widths = \[\] is not allowed"),
    ("studies.digits.network.width", 4, "network.width does not belong to mlp"),
    ("studies.digits.network.name", "cnn", "network.name is 'cnn'; known networks are"),
    ("studies.digits.network.norm", "groupnorm", "'groupnorm' is not one of"),
    ("studies.digits.seeds", 7, "seeds = 7 must be a multiple of 2, because seeds form pairs"),
    ("studies.digits.seeds", 0, "seeds = 0 is not allowed"),
    ("studies.digits.seeds_per_job", 3, "seeds_per_job = 3 must be a multiple of 2"),
    ("studies.digits.dataset", "mnist", "dataset names 'mnist', which is not among datasets"),
    ("studies.digits.variants", {}, "variants = {} is not allowed"),
    ("studies.digits.variants.Upper", {"scheme": {"name": "standard"}}, "the name 'Upper' .* lower-case"),
    (
        "studies.digits.variants.w.scheme.n_fixed",
        64,
        "n_fixed = 64 fixes 64 of the 64 weights in a row .* of linears.0",
    ),
    ("studies.digits.variants.w.scheme.n_fixed", [8, 8], "lists 2 values but the network has 4 linear maps"),
    ("studies.digits.variants.w.scheme.n_fixed", -1, "n_fixed = -1 is not"),
    ("studies.digits.variants.w.scheme.fixed_fraction", 0.1, "exactly one of n_fixed and fixed_fraction"),
    ("studies.digits.variants.w.sweep", {"scheme.sigma_F": [0, -1]}, "sigma_F = -1 is not allowed"),
    ("studies.digits.variants.w.sweep", {"scheme.sigma": [0, 1]}, "unknown key 'sigma'"),
    ("studies.digits.variants.w.sweep", {"scheme.name.x": [0, 1]}, "'name' holds no keys"),
    ("studies.digits.variants.syre.scheme.epsilon", 1, "epsilon = 1 is not allowed"),
    ("studies.digits.variants.syre.scheme.n_fixed", 4, "n_fixed does not belong to syre"),
    ("studies.digits.variants.syre.scheme", {"name": "syre"}, "lacks sigma_F, which syre needs"),
    ("studies.digits.variants.syre.scheme", {"name": "syr"}, "name is 'syr'; known schemes are"),
    ("studies.digits.variants.standard", {}, "lacks a key: 'scheme' is a required property"),
    ("studies.digits.init", {"name": "normal"}, "init lacks std, which normal needs"),
    ("studies.digits.init", {"name": "lecun", "std": 1}, "std does not belong to lecun"),
    ("studies.digits.recipe.schedule", {"name": "exponential", "gamma": 2}, "lacks growth_epochs"),
    ("studies.digits.recipe.schedule", {"name": "constant", "gamma": 2}, "gamma does not belong to constant"),
    ("studies.digits.seeds", 4.0, "seeds = 4.0 is not allowed"),
    ("studies.digits.recipe.epochs", True, "epochs = True is not allowed"),
    ("studies.digits.recipe.lr", float("nan"), "lr = nan is not allowed"),
    ("studies.digits.recipe.weight_decay", float("inf"), "weight_decay = inf is not allowed"),
    ("studies.digits.snapshots", [1, 1], "non-unique"),
    ("studies.digits.variants.w.sweep", {"scheme.sigma_F": [1, 1]}, "non-unique"),
    ("studies.digits.variants.w.sweep", {"foo": [1, 2]}, "unknown key 'foo'"),
    ("studies.digits.variants.w_sigma_F0", {"scheme": {"name": "standard"}}, "lower-case"),
    ("studies.digits.variants.nan", {"scheme": {"name": "standard"}}, "name 'nan'|'nan' should not be valid"),
    ("datasets.gmm_k2", {"source": "digits"}, "expands to the name 'gmm_k2', which is taken already"),
    ("studies.digits.matching", None, "aligned needs studies.digits.matching"),
    ("studies.digits.interpolation", {"lambdas": 24}, "lambdas = 24 must be odd"),
    ("studies.digits.interpolation", {"splits": ["valid"]}, "'valid' is not one of"),
    ("studies.digits.identification", {"explained_variance": 1.5}, "explained_variance = 1.5 is not allowed"),
    ("studies.digits.ridge", {"reported": 0.02}, r"ridge.reported = 0.02 is not among studies.digits.ridge.beta"),
    ("studies.digits.ridge", {"solver": "sgd"}, "'sgd' is not one of"),
    ("studies.digits.ridge", {"block": 2}, "block = 2 is not allowed"),
    ("studies.digits.ridge", {"beta": ["1e-3"]}, "beta.0 = '1e-3' is text in YAML; write the number as 0.001"),
    ("studies.digits.figures", [12], "figures.0 = 12 must be text; put it in quotes"),
    ("studies.digits.ridge", {"beta": [0]}, "beta.0 = 0 is not allowed"),
    ("studies.coherence.ridge", {}, "ridge needs studies.coherence.identification"),
    ("studies.digits.theory", {"models": 3}, "models = 3 must be a multiple of 2"),
    ("studies.digits.theory", {"delta": 1}, "delta = 1 is not allowed"),
    ("datasets.digits.source", "digitz", "source is 'digitz'; known sources are"),
    ("datasets.digits.k", 3, "datasets.digits.k does not belong to digits"),
    ("datasets.gmm", {"source": "gmm", "sigma_sep": 8}, "datasets.gmm lacks k"),
    ("datasets.gmm.sweep", {"k": [2, "../../etc"]}, "cannot be part of a folder's name|is not allowed"),
    ("studies.digits.network", {"name": "resnet20", "depth": 20}, "network.depth does not belong to resnet20"),
    ("studies.digits.network", {"name": "resnet20", "width_multiplier": 0}, "width_multiplier = 0 is not allowed"),
    ("studies.digits.network", {"name": "vit", "widths": [4]}, "network.widths does not belong to vit"),
    ("studies.digits.network", {"name": "vit", "heads": 1.5}, "heads = 1.5 is not allowed"),
    ("studies.digits.variants.w.scheme.n_fixed", {"linear.*": 3}, "pattern 'linear.*', which matches no"),
    ("studies.digits.variants.w.scheme.n_fixed", {"linears.[012]": 3}, "no pattern that matches linears.3"),
    ("studies.digits.variants.w.scheme.n_fixed", {"*": 64}, "n_fixed = 64 fixes 64 of the 64 weights"),
    ("studies.digits.variants.w.scheme.n_fixed", {"*": -1}, "-1 is (less|not)"),
    ("studies.digits.variants.w.scheme.n_fixed", {0: 3}, "0 is not of type 'string'|not allowed"),
    ("studies.digits.variants.w.scheme.n_fixed", {}, "n_fixed = {} is not allowed"),
    ("studies.digits.variants.w.scheme", {**HEADS, "heads": 0}, "heads = 0 is not allowed"),
    ("studies.digits.variants.w.scheme", {**HEADS, "density": 0.5}, "density does not belong to w_asymmetric_heads"),
    ("studies.digits.variants.w.scheme", {"name": "w_asymmetric_heads", "sigma_F": 1, "n_fixed": 6}, "lacks heads"),
    ("studies.digits.variants.w.scheme", {**HEADS, "fixed_fraction": 0.1}, "exactly one of n_fixed and fixed_fraction"),
    ("studies.digits.variants.w.scheme", HEADS, "needs a network with attention heads, but network.name is mlp"),
    ("studies.digits.recipe.augment", True, "augment = True is not allowed"),
    ("studies.digits.recipe.augment", {"crop": -1}, "augment.crop = -1 is not allowed"),
    ("studies.digits.recipe.augment", {"flips": True}, "unknown key 'flips' at studies.digits.recipe.augment"),
    ("studies.gmm.recipe.augment", {}, r"augment flips and crops images, but .* gmm_k2 \(source gmm\) are none"),
    ("studies.digits.recipe.precision", "float16", "precision = 'float16' is not allowed"),
    ("studies.digits.variants.standard.recipe", {"precision": "fp8"}, "precision = 'fp8' is not allowed"),
    ("studies.digits.variants.standard.recipe", {"epoch": 1}, "unknown key 'epoch' .* known keys are augment, "),
    ("studies.digits.variants.standard.network", {"w": 1}, "unknown key 'w' .* known keys are activation, "),
    ("studies.digits.interpolation", {"samples": 0}, "samples = 0 is not allowed"),
    ("studies.digits.interpolation", {"repair": None}, "repair = None is not allowed"),
    ("datasets.digits.n_samples", 100, "n_samples does not belong to digits"),
    ("datasets.digits", {"source": "cifar10", "n_samples": 9}, "n_samples = 9 is not allowed"),
    ("datasets.digits", {"source": "cifar10_jpeg", "k": 9}, "k does not belong to cifar10_jpeg"),
    ("device", "tpu", "device = 'tpu' is not allowed"),
    ("studies", {}, "studies = {} is not allowed"),
    ("style", {"font_size": 100}, "font_size = 100 is not allowed"),
]


@pytest.mark.parametrize(("key", "value", "sentence"), BAD, ids=[f"{key}={value}"[:60] for key, value, _ in BAD])
def test_a_wrong_config_gets_a_sentence_that_names_the_key(config, key, value, sentence):
    set_key(config, key, value)
    with pytest.raises(UserError, match=sentence):
        parse_config(config)


def test_the_snakefile_does_not_wait_for_torch():
    code = "import sys, symlab.config, symlab.figures, symlab.claims; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "workflow")})
