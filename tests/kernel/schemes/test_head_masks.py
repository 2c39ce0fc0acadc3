"""Head-aware masks: as many fixed entries as the plain ones, placed head by head."""

import pytest
import torch

from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.schemes import SCHEMES
from symlab.schemes.fixed_parts import sample_fixed_parts, weight_shapes
from symlab.settings import choose

HEADS = 4
SHAPES = weight_shapes(
    build(choose(NETWORKS, {"name": "vit", "dim": 64, "depth": 2, "heads": HEADS, "channels": 1}), 64, 10)
)
SCHEME = {"name": "w_asymmetric_heads", "heads": HEADS, "sigma_F": 1.5, "n_fixed": 8}
PLAIN = {"name": "w_asymmetric", "sigma_F": 1.5, "n_fixed": 8}


@pytest.fixture(scope="module")
def parts():
    return sample_fixed_parts(choose(SCHEMES, SCHEME), SHAPES, "s", 0)


def test_every_row_has_as_many_fixed_entries_as_in_the_plain_scheme(parts):
    for F, D in parts.values():
        assert torch.equal((D == 0).sum(dim=1), torch.full((len(D),), 8))
        assert torch.equal(F != 0, D == 0)


def test_neurons_of_a_head_share_their_columns_and_heads_do_not(parts):
    for weight, (F, D) in parts.items():
        if weight.split(".")[-2] not in ("query", "key", "value"):
            continue
        by_head = D.view(HEADS, 16, 64)
        assert (by_head == by_head[:, :1]).all()
        assert len({tuple(row) for row in by_head[:, 0].tolist()}) == HEADS
        assert len(F[D == 0].unique()) == 64 * 8
    masks = [parts[f"blocks.{b}.attention.{name}.weight"][1] for b in (0, 1) for name in ("query", "key", "value")]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 6


def test_rows_of_the_output_map_spread_their_fixed_entries_over_the_heads(parts):
    for b in (0, 1):
        _, D = parts[f"blocks.{b}.attention.output.weight"]
        assert ((D == 0).view(64, HEADS, 16).sum(dim=2) == 2).all()
        assert len({tuple(row) for row in D.tolist()}) > 60


def test_other_maps_are_those_of_the_plain_scheme(parts):
    plain = sample_fixed_parts(choose(SCHEMES, PLAIN), SHAPES, "s", 0)
    for weight in ("patch_embedding.weight", "blocks.1.mlp.0.weight", "blocks.1.mlp.2.weight", "readout.weight"):
        for mine, theirs in zip(parts[weight], plain[weight], strict=True):
            assert torch.equal(mine, theirs)


def test_values_are_normal():
    shapes = {"attention.query.weight": (512, 512)}
    F, D = sample_fixed_parts(choose(SCHEMES, SCHEME | {"n_fixed": 64}), shapes, "s")["attention.query.weight"]
    assert F[D == 0].std().item() == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize(
    ("scheme", "shapes", "sentence"),
    [
        ({"n_fixed": 6}, SHAPES, r"fix 6 weights in each row of blocks.0.attention.output.weight.* multiple of 4"),
        ({"heads": 5}, SHAPES, "heads = 5 does not divide the 64 rows of blocks.0.attention.query.weight"),
        ({"n_fixed": 5, "heads": 5}, {"output.weight": (10, 64)}, "heads = 5 does not divide the 64 columns of output"),
        ({}, {"linears.0.weight": (16, 16)}, "finds no attention in the network"),
        ({"n_fixed": 64}, SHAPES, "n_fixed = 64 fixes 64 of the 16 weights"),
    ],
)
def test_what_does_not_fit_is_refused(scheme, shapes, sentence):
    with pytest.raises(UserError, match=sentence):
        sample_fixed_parts(choose(SCHEMES, SCHEME | scheme), shapes, "s")
