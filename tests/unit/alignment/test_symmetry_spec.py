from dataclasses import replace

import pytest
from torch import nn

from symlab.alignment.symmetry_spec import SymmetrySpec, symmetry_spec, validate
from symlab.errors import UserError
from symlab.networks import build


def test_every_axis_of_a_batchnorm_sigma_mlp():
    module = build({"name": "mlp", "widths": [5, 4], "norm": "batchnorm", "activation": "sigma"}, 3, 2)
    spec = symmetry_spec(module)
    norm = ("weight", "bias", "running_mean", "running_var")
    assert spec == SymmetrySpec(
        axes={
            "linears.0.weight": ("hidden1", None),
            "linears.0.bias": ("hidden1",),
            "linears.1.weight": ("hidden2", "hidden1"),
            "linears.1.bias": ("hidden2",),
            "linears.2.weight": (None, "hidden2"),
            "linears.2.bias": (None,),
            **{f"norms.0.{name}": ("hidden1",) for name in norm},
            **{f"norms.1.{name}": ("hidden2",) for name in norm},
            "norms.0.num_batches_tracked": (),
            "norms.1.num_batches_tracked": (),
            "activations.0.C": ("hidden1", "hidden1"),
            "activations.1.C": ("hidden2", "hidden2"),
        },
        points={"hidden1": "activations.0", "hidden2": "activations.1"},
        sizes={"hidden1": 5, "hidden2": 4},
    )


def test_the_only_layer_of_a_coherence_student_is_hidden():
    spec = symmetry_spec(build({"name": "coherence_student", "width": 7}, 4, 1))
    assert spec.axes == {"linears.0.weight": ("hidden1", None), "linears.0.bias": ("hidden1",)}
    assert (spec.points, spec.sizes) == ({"hidden1": "activations.0"}, {"hidden1": 7})


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


class WithScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
        self.activations = nn.ModuleList([nn.ReLU()])
        self.scale = nn.Parameter(self.linears[0].bias.detach().clone())


def test_unknown_architectures_are_refused_by_name():
    with pytest.raises(UserError, match="Other"):
        symmetry_spec(Other())
    with pytest.raises(UserError, match="'scale'"):
        symmetry_spec(WithScale())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": {"hidden1": 6}}, "axis 0 of 'linears.0.weight' has 5 entries"),
        ({"axes": {}}, "says nothing of 'linears.0.weight'"),
        ({"points": {}}, "recording points"),
        ({"sizes": {}}, "unknown group 'hidden1'"),
    ],
)
def test_specs_that_do_not_fit_are_refused(change, message):
    module = build({"name": "mlp", "widths": [5], "norm": "none"}, 3, 2)
    with pytest.raises(UserError, match=message):
        validate(replace(symmetry_spec(module), **change), module.state_dict())


def test_wrong_names_and_wrong_numbers_of_axes_are_refused():
    module = build({"name": "mlp", "widths": [5], "norm": "none"}, 3, 2)
    spec = symmetry_spec(module)
    with pytest.raises(UserError, match="does not have"):
        validate(replace(spec, axes={**spec.axes, "extra": (None,)}), module.state_dict())
    with pytest.raises(UserError, match=r"gives 1 axes for 'linears.0.weight'"):
        validate(replace(spec, axes={**spec.axes, "linears.0.weight": ("hidden1",)}), module.state_dict())
