"""A config is either expanded as written or refused with one sentence that names the key and the value."""

import copy
from pathlib import Path

import pytest
import yaml

from symlab.errors import UserError
from symlab.pipeline.config import parse_config

ROOT = Path(__file__).parents[2]
CONFIGS = [ROOT / "config.yaml", *sorted((ROOT / "workflow/presets").glob("*.yaml"))]
TINY = yaml.safe_load((ROOT / "workflow/presets/tiny.yaml").read_text())
DIGITS = "studies.digits"
GONE = "GONE"


def change(changes):
    """The tiny preset with values at dotted keys."""
    config = copy.deepcopy(TINY)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        block = config
        for parent in parents:
            block = block.setdefault(parent, {})
        if value == GONE:
            del block[last]
        else:
            block[last] = value
    return config


def parse(changes):
    return parse_config(change(changes))


def study(**changes):
    """The study of networks of the tiny preset after changes of its keys."""
    return parse({f"{DIGITS}.{key}": value for key, value in changes.items()}).studies["digits"]


LISTED = {"source": "coherence", "embedding": "exact_copy", "t": 2}


def test_data_that_a_grid_does_not_name_need_not_fit_it():
    grid = {"network": "rn1", "dataset": "digits", "L": [2], "per_class": 3}
    study = {"dataset": ["digits", "own"], "neural_collapse": {"runs": grid}}
    assert parse({"datasets.own": LISTED, "studies.own": study}).studies["own"].datasets() == ["digits", "own"]


def test_errors_name_the_file():
    with pytest.raises(UserError, match=r"^Config my\.yaml: unknown key colour; known keys are results, "):
        parse_config({**TINY, "colour": 1}, "Config my.yaml")


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
