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


@pytest.mark.parametrize(("given", "place"), [(0, "widths"), (1, "widths.1")])
def test_a_grid_that_gives_nothing_is_named(given, place):
    grid = {"M": 6, "d": [8], "m": [7]}
    grids = [grid | {"runs": 2}] * given + [grid]
    with pytest.raises(UserError, match=rf"studies\.own\.teacher_student\.{place} is not allowed: it needs runs"):
        parse({"studies.own": {"teacher_student": {"widths": grids}}})


def test_errors_name_the_file():
    with pytest.raises(UserError, match=r"^Config my\.yaml: unknown key colour; known keys are results, "):
        parse_config({**TINY, "colour": 1}, "Config my.yaml")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_that_is_shipped_is_right(path):
    project = parse_config(yaml.safe_load(path.read_text()))
    assert project.studies


def test_a_default_that_is_written_out_is_the_default():
    assert study(**{"recipe.batch_size": 64}).training_spec("w_sigma_F1", 0) == study().training_spec("w_sigma_F1", 0)


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


def test_the_caller_s_config_stays_as_it_was():
    config = copy.deepcopy(TINY)
    parse_config(config)
    assert config == TINY
