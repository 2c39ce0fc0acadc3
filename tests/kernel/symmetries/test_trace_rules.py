"""Single operations, operations without a rule, and the values of the traced graph."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from symlab.alignment.permute import permute
from symlab.errors import UserError
from symlab.symmetries import propagation
from symlab.symmetries.index_sets import IndexSet, atoms, concat, cut, fix, is_fixed, product, structure, unify
from symlab.symmetries.rules.indexing import grouped_mm
from symlab.symmetries.rules.recorder import POINTING, RULES
from symlab.symmetries.symmetry_spec import Concat, Product, random_permutations, shape
from symlab.symmetries.trace import trace


class Net(nn.Module):
    """Two linear maps around a function."""

    def __init__(self, function, n_in=4, n_hidden=6, n_enters=None, **parts):
        super().__init__()
        self.first, self.last = nn.Linear(n_in, n_hidden), nn.Linear(n_enters or n_hidden, 3)
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.last(self.function(self, self.first(x)))


def random_state(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype).abs() + 0.1
        if "running" in name
        else torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in module.state_dict().items()
    }


def check(module, x, seed=0):
    """The spec of a network, after checking that its permutations keep the function."""
    module = module.double().eval()
    spec = trace(module, x).spec
    state = random_state(module, seed)
    permuted = permute(state, spec, random_permutations(spec, np.random.default_rng(seed)))
    with torch.no_grad():
        before, after = (functional_call(module, tensors, (x,)) for tensors in (state, permuted))
    assert float((after - before).abs().max()) <= 1e-11 * float(before.abs().max())
    return spec


def sizes(spec):
    return {name: shape(name, spec.groups) for name in spec.free}


X = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("function", "expected"),
    [(lambda m, h: torch.renorm(h, 2, 0, 1.0), "renorm"), (lambda m, h: torch.fft.fft(h).real, "fft_fft")],
)
def test_unknown_operations_are_named_and_their_axes_stay(function, expected):
    class Block(nn.Module):
        def forward(self, h):
            return function(None, h)

    module = Net(lambda m, h: F.relu(m.middle(m.block(h))), middle=nn.Linear(6, 6), block=Block())
    spec = check(module, X)
    assert len(spec.unsupported) == 1
    assert spec.unsupported[0].startswith(f"operation {expected} in 'block' (value {expected}")
    assert spec.axes["first.weight"] == (None, None) and spec.axes["first.bias"] == (None,)
    assert sizes(spec) == {"middle": (6,)}


@pytest.mark.parametrize(
    ("function", "n_enters", "expected"),
    [
        (lambda m, h: h.view(-1, 2, 3).softmax(1).flatten(1), None, {"first": (3, 2), "first:1": (3,)}),
        (lambda m, h: h.view(-1, 2, 3).softmax(2).flatten(1), None, {"first": (2,), "first:1": (2, 3)}),
        (lambda m, h: h.view(-1, 2, 3).sum(1), 3, {"first": (3, 2), "first:1": (3,)}),
        (lambda m, h: h.view(-1, 2, 3).flip(1).flatten(1), None, {"first": (3,)}),
        (
            lambda m, h: h.view(-1, 2, 3).transpose(1, 2).flatten(1).view(-1, 6),
            None,
            {"first": (2,), "first:1": (2, 3)},
        ),
        (lambda m, h: h.view(-1, 2, 3).flatten(1), None, {"first": (6,)}),
        (lambda m, h: torch.cat([h, -h.tanh()], 1), 12, {"first": (6,)}),
        (lambda m, h: h[:, 1:3] * h[:, 4:], 2, {"first": (2,)}),
        (lambda m, h: F.glu(h), 3, {"first": (3,)}),
        (lambda m, h: h + torch.arange(6), None, {}),
        (lambda m, h: h * torch.full((6,), 2.0), None, {"first": (6,)}),
        (lambda m, h: h + torch.tensor([1.0, 1, 1, 2, 2, 2]), None, {}),
        (lambda m, h: F.normalize(h, dim=1), None, {"first": (6,)}),
        (lambda m, h: F.pad(h, (1, 2)), 9, {"first": (6,)}),
        (lambda m, h: h.repeat(1, 2), 12, {"first": (6,)}),
        (lambda m, h: torch.stack([h, h.exp()], 2).amax(2), None, {"first": (6,)}),
        (lambda m, h: h.clone().mul_(2).relu_(), None, {"first": (6,)}),
        (lambda m, h: torch.einsum("bi,ij->bj", h, m.matrix), None, {"first": (6,), "matrix": (6,)}),
        # Without an arrow what is left is in the order of the alphabet.
        (lambda m, h: torch.einsum("zyi,ij", h[:, None], m.matrix)[:, 0].T, None, {"first": (6,), "matrix": (6,)}),
        (lambda m, h: h @ m.matrix + h, None, {"first": (6,)}),
        (lambda m, h: h.max(1, keepdim=True)[0].expand(-1, 6) + h, None, {"first": (6,)}),
        (lambda m, h: h.view(-1, 2, 3) @ m.three, 3, {"first": (2,), "first:1": (2, 3)}),
        (lambda m, h: h.unsqueeze(2) * m.scale, 30, {"first": (6,), "scale": (5,)}),
        (lambda m, h: h.max(1, keepdim=True)[1] + h, None, {}),
        (lambda m, h: h * (h.argmax(1, keepdim=True) + 1), None, {}),
    ],
)
def test_single_operations(function, n_enters, expected):
    if n_enters == 3 and "three" in function.__code__.co_names:
        module = Net(lambda m, h: function(m, h).flatten(1), n_enters=6, three=nn.Parameter(torch.zeros(3, 3)))
        expected = {"first": (2,), "first:1": (3,), "three": (3,)}
    else:
        parts = {"matrix": nn.Parameter(torch.zeros(6, 6)), "scale": nn.Parameter(torch.zeros(5))}
        module = Net(lambda m, h: function(m, h).flatten(1), n_enters=n_enters, **parts)
    spec = check(module, X)
    assert spec.unsupported == ()
    assert sizes(spec) == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda h: torch.multiply(h, torch.divide(h, 3)),
        lambda h: torch.where(torch.greater(h, 0.1), torch.negative(h), torch.absolute(h)),
        lambda h: h.moveaxis(0, 1).moveaxis(1, 0),
        lambda h: torch.hstack([h, h])[:, :6] + torch.vstack([h, h])[:3],
        lambda h: h * F.cosine_similarity(h, h.exp(), dim=-1)[:, None],
        lambda h: h - torch.special.logsumexp(h, -1, keepdim=True),
        lambda h: torch.tensordot(h, torch.ones(6, 6, dtype=h.dtype), dims=([1], [0])),
        lambda h: h / torch.linalg.norm(h, dim=-1, keepdim=True) + torch.linalg.vecdot(h, h)[:, None],
        lambda h: h - h.median(-1, keepdim=True).values + h.count_nonzero(-1)[:, None],
    ],
)
def test_operations_that_torch_composes_of_others_keep_their_neurons(function):
    module = Net(lambda m, h: F.relu(m.middle(function(h))), middle=nn.Linear(6, 6))
    spec = check(module, X)
    assert spec.unsupported == ()
    assert sizes(spec) == {"first": (6,), "middle": (6,)}


def test_a_kronecker_product_repeats_its_neurons():
    spec = check(Net(lambda m, h: torch.kron(h, torch.tensor([[1.0, 2.0]], dtype=h.dtype)), n_enters=12), X)
    assert spec.unsupported == () and sizes(spec) == {"first": (6,)}


def moved_pixels(module, h):
    """A convolution of kernel size 1 whose stride and padding move the pixels but keep their number."""
    return torch.tanh(F.conv1d(h[:, :, None] * torch.relu(module.pixels), module.kernel, stride=2, padding=1)).sum(2)


def written_diagonal(module, h):
    gram = torch.tanh(h[:, :, None] * h[:, None])
    gram.diagonal(dim1=1, dim2=2).mul_(2)
    return gram @ module.vector


def written_dropout(module, h):
    h = torch.tanh(h)
    same = F.dropout(h, 0.5, module.training)
    same += module.vector
    return h * torch.sigmoid(h)


def written_scores(module, h):
    scores = h * module.vector
    scores[:, 0] = 0
    return F.relu(scores)


def without_gradients(module, h):
    with torch.no_grad():
        scale = torch.outer(torch.ones(2, dtype=h.dtype), module.vector)
    with torch.autocast("cpu", enabled=False):
        return F.relu(h) * scale[1]


PARAMETERS = {"vector": (6,), "matrix": (6, 6), "cube": (6, 6, 6), "pixels": (1, 6, 3), "kernel": (6, 6, 1)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (moved_pixels, {"first": (6,), "kernel": (6,)}),
        (lambda m, h: h.index_select(1, (m.vector > 0).long()), {"vector": (6,)}),
        (lambda m, h: h[:, (m.vector > 0).long()], {"vector": (6,)}),
        (lambda m, h: h * m.cube.permute(2, 1, 0)[:, 1, 2], {"first": (6,)}),
        (lambda m, h: h * m.cube.T[:, 1, 2], {"first": (6,)}),
        (lambda m, h: h * h[:, h.shape[0] % 5].unsqueeze(1), {}),
        (lambda m, h: torch.cat([h[:, h.shape[0] :].sum(1, keepdim=True), h[:, 1:]], 1), {}),
        (lambda m, h: torch.cat(h.tensor_split([4, 2], 1), 1)[:, 2:], {}),
        (written_diagonal, {"first": (6,)}),
        (written_dropout, {"first": (6,)}),
        (written_scores, {"first": (5,)}),
        (without_gradients, {"first": (6,)}),
        (lambda m, h: h + h.flip(1), {}),
        (lambda m, h: torch.tanh(h) + h.view(-1, 2, 3).mT.reshape(-1, 6), {}),
        (lambda m, h: (h @ torch.tril(m.matrix)).relu(), {}),
        (lambda m, h: F.linear(h, torch.outer(m.vector, m.vector)).tanh(), {"first": (6,)}),
        (lambda m, h: h.repeat_interleave(2, 1)[:, ::2] * m.vector, {"first": (6,)}),
        (lambda m, h: h.view(-1, 3, 2).cumsum(1).flatten(1), {"first": (2,)}),
        (lambda m, h: (lambda v, mean: (h - mean) / v)(*torch.var_mean(h, 1, keepdim=True)), {"first": (6,)}),
        (
            lambda m, h: torch.einsum("bhd,bgd->bhg", h.view(-1, 2, 3), h.view(-1, 2, 3)) @ h.view(-1, 2, 3),
            {"first": (2,), "first:1": (3,)},
        ),
    ],
)
def test_operations_that_fooled_the_tracer_or_might_have(function, expected):
    parts = {name: nn.Parameter(torch.zeros(size)) for name, size in PARAMETERS.items()}
    spec = check(Net(lambda m, h: function(m, h).flatten(1), **parts), X)
    assert spec.unsupported == ()
    assert sizes(spec) == expected


def test_writing_into_a_buffer_of_zeros():
    def function(module, h):
        kept = torch.zeros(h.shape[0], 8, dtype=h.dtype)
        kept[:, 1:7] = h
        kept += 1
        return kept

    spec = check(Net(function, n_enters=8), X)
    assert spec.unsupported == ()
    assert sizes(spec) == {"first": (6,)}
    assert spec.axes["last.weight"] == (None, Concat((1, "first", 1)))


def test_an_example_may_be_part_of_another_tensor():
    def function(module, h):
        kept = torch.zeros_like(h)
        for row in range(len(h)):
            kept[row] = h[row].tanh()
        return kept

    assert sizes(check(Net(function), torch.cat([X, X], 1)[:, :4])) == {"first": (6,)}


def test_group_sizes_of_norms_are_respected():
    module = nn.Sequential(nn.Conv2d(4, 12, 1), nn.GroupNorm(4, 12), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    spec = check(module, torch.randn(2, 4, 2, 2, dtype=torch.float64))
    assert sizes(spec) == {"0": (4,), "0:1": (4, 3)}
    assert spec.axes["1.weight"] == (Product(("0", "0:1")),)
    assert spec.axes["4.weight"] == (None, Product(("0", "0:1", 4)))


def test_whole_groups_of_a_part_of_a_concatenation_are_its_own():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Conv2d(4, 6, 1), nn.Conv2d(4, 12, 1), nn.GroupNorm(3, 18)
            self.last = nn.Conv2d(18, 2, 1)

        def forward(self, x):
            return self.last(self.norm(torch.cat([self.a(x), self.b(x)], 1)).relu())

    spec = check(Two(), torch.randn(2, 4, 2, 2, dtype=torch.float64))
    assert sizes(spec) == {"a": (6,), "b": (2,), "b:1": (2, 6)}
    assert spec.axes["norm.bias"] == (Concat(("a", Product(("b", "b:1")))),)


def test_more_layers_with_rules():
    x = torch.randn(2, 4, 8, 8, dtype=torch.float64)
    module = nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8), nn.Upsample(scale_factor=2),
        nn.ConvTranspose2d(8, 6, 2, 2, groups=2), nn.Softplus(), nn.Conv2d(6, 8, 1), nn.PixelShuffle(2), nn.ELU(),
        nn.Unfold(2), nn.Flatten(), nn.LazyLinear(2),
    )  # fmt: skip
    module.double()(x)
    spec = check(module, x)
    assert spec.unsupported == ()
    # The input's channels stay, and with them the groups of the convolutions: what lies within each moves by itself.
    # A pixel shuffle spreads channels over pixels.
    assert sizes(spec) == {"0:1": (2, 4), "4:1": (2, 3), "6": (2,)}


@pytest.mark.parametrize(
    ("resample", "free"),
    [
        (lambda h: F.interpolate(h, size=(3, 5), mode="bilinear", antialias=True), 6),
        (lambda h: F.interpolate(h, size=(3, 5), mode="bicubic", antialias=True), 6),
        (lambda h: F.grid_sample(h, h[:, :2].movedim(1, 3).tanh(), align_corners=False), 4),
    ],
)
def test_channels_of_resampled_images_are_free_unless_they_say_where_to_sample(resample, free):
    class Resampled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(4, 6, 1), nn.Conv2d(6, 2, 1)

        def forward(self, x):
            return self.b(resample(self.a(x)).relu())

    spec = check(Resampled(), torch.randn(3, 4, 4, 4, dtype=torch.float64))
    assert spec.unsupported == ()
    assert sizes(spec) == {"a": (free,)}


def test_channels_pass_from_windows_into_the_image_that_they_are_folded_to():
    module = nn.Sequential(
        nn.Conv2d(4, 6, 1), nn.Unfold(2, stride=2), nn.Fold(4, 2, stride=2), nn.ReLU(), nn.Conv2d(6, 2, 1)
    )  # fmt: skip
    spec = check(module, torch.randn(2, 4, 4, 4, dtype=torch.float64))
    assert spec.unsupported == ()
    assert sizes(spec) == {"0": (6,)}


def test_pixels_of_windows_stay_where_they_are_folded():
    module = nn.Sequential(nn.Linear(4, 12), nn.Unflatten(1, (12, 1)), nn.Fold(2, 2), nn.ReLU(), nn.Conv2d(3, 2, 1))
    spec = check(module, X)
    assert sizes(spec) == {"0": (3,)}
    assert spec.axes["0.weight"] == (Product(("0", 4)), None)


def test_weight_norm_keeps_its_neurons():
    module = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 2))
    spec = check(module, X)
    assert spec.unsupported == ()
    assert list(sizes(spec).values()) == [(6,)]
    assert all(axes[0] is not None for name, axes in spec.axes.items() if name.startswith("0."))


def test_parameters_that_are_not_used_stay():
    module = Net(lambda m, h: F.relu(h), spare=nn.Linear(4, 6))
    spec = check(module, X)
    assert spec.axes["spare.weight"] == (None, None)


def test_two_groups_of_one_name_are_refused():
    class Named(Net):
        def group_names(self):
            return {"first": "a", "middle": "a"}

    with pytest.raises(UserError, match=r"both be called 'a'.*'first'.*'middle'"):
        trace(Named(lambda m, h: F.relu(m.middle(F.relu(h))), middle=nn.Linear(6, 5), n_enters=5), torch.zeros(2, 4))


def test_writing_into_a_hidden_view_is_refused():
    def function(module, h):
        transposed = torch.einsum("bi->ib", h)
        transposed *= 2
        return h

    with pytest.raises(UserError, match="writes in place into a result of einsum"):
        trace(Net(function), X.float())


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (torch.zeros(0, 4), r"shapes \(0, 4\).*none may be empty"),
        ((), "at least one input"),
        (torch.tensor(1.0), "batch as its first dimension"),
        ({"x": torch.zeros(2, 4)}, "is a dict: give a tensor"),
        (torch.zeros(2, 5), r"cannot be traced at inputs of shape \(2, 5\)"),
    ],
)
def test_examples_that_cannot_be_traced_are_refused(example, message):
    with pytest.raises(UserError, match=message):
        trace(Net(lambda m, h: F.relu(h)), example)


def test_what_is_no_module_is_refused():
    with pytest.raises(UserError, match="not a function"):
        trace(lambda x: x, torch.zeros(2, 4))


def test_several_inputs_of_different_batch_sizes():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, *several):
            return self.last(F.relu(self.first(torch.cat(several))))

    spec = trace(Joined(), tuple(torch.zeros(2 + n, 4) for n in range(6))).spec
    assert spec.unsupported == ()
    assert sizes(spec) == {"first": (6,)}


class Heads(nn.Module):
    """Attention with 4 heads of queries and 2 of keys and values, around a function of all three."""

    def __init__(self, function, **parts):
        super().__init__()
        self.q, self.k, self.v, self.last = nn.Linear(4, 12), nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(12, 2)
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, 3)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return self.last(self.function(self, q, k, v).transpose(1, 2).flatten(2))


GROUPED = {"q": (2,), "q:1": (2, 2), "q:2": (2, 3), "v:1": (2, 3)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), GROUPED),
        (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=m.bias, enable_gqa=True), GROUPED),
        (
            lambda m, q, k, v: (q @ k.repeat_interleave(2, 1).mT + m.bias).softmax(-1) @ v.repeat_interleave(2, 1),
            GROUPED,
        ),
        (
            lambda m, q, k, v: (m.talk(q @ k.repeat_interleave(2, 1).mT)).softmax(-1) @ v.repeat(1, 2, 1, 1),
            {"q": (2,), "v": (2,), "q:1": (2, 2), "talk": (2, 2), "q:2": (2, 3), "v:1": (2, 3)},
        ),
        (
            lambda m, q, k, v: torch.einsum("bhqg,bgqd->bhqd", torch.einsum("bhqd,bgqd->bhqg", q, k).tanh(), v),
            {"q": (4,), "q:1": (3,), "k": (2,), "v:1": (3,)},
        ),
    ],
)
def test_kinds_of_attention(function, expected):
    module = Heads(function, bias=nn.Parameter(torch.zeros(4, 5, 5)), talk=nn.Conv2d(4, 4, 1))
    spec = check(module, torch.randn(3, 5, 4, dtype=torch.float64))
    assert spec.unsupported == ()
    assert sizes(spec) == expected


def test_forward_passes_that_depend_on_values_are_refused():
    module = Net(lambda m, h: h if float(h.sum()) > 0 else -h)
    with pytest.raises(UserError, match="forward pass of Net cannot be traced"):
        trace(module, torch.zeros(2, 4))


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_values_are_those_of_the_eager_forward_at_any_batch_size(batch):
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3))
    traced = trace(module, torch.zeros(1, 4))
    assert module.training
    (point,) = traced.spec.points["0"]
    assert point.place == "2"
    state = random_state(module)
    x = torch.randn(batch, 4)
    module.load_state_dict(state)
    expected = module.eval()[:3](x)
    values = traced.values(state, x, [point.value])
    torch.testing.assert_close(values[point.value], expected)
    assert not values[point.value].requires_grad
    with pytest.raises(UserError, match="no value 'nothing'"):
        traced.values(state, x, ["nothing"])


def test_values_at_other_batch_sizes_when_the_forward_asks_for_it():
    module = Net(lambda m, h: F.relu(h) + torch.zeros(len(h), 6))
    traced = trace(module, torch.zeros(2, 4))
    assert traced.batch == 2
    state, x = random_state(module), torch.randn(5, 4)
    (point,) = traced.spec.points["first"]
    values = traced.values(state, x, [point.value])[point.value]
    torch.testing.assert_close(values, F.relu(x @ state["first.weight"].T + state["first.bias"]))


def test_only_what_is_wanted_is_computed():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    traced = trace(module, torch.zeros(2, 4))
    first_layer = {name: tensor for name, tensor in module.state_dict().items() if name.startswith("0")}
    (point,) = traced.spec.points["0"]
    assert traced.values(first_layer, torch.zeros(3, 4), [point.value])[point.value].shape == (3, 5)


def test_a_use_that_a_rule_does_not_cover_is_as_good_as_unknown():
    # A mask of one dimension, which torch broadcasts.
    module = Net(
        lambda m, h: F.scaled_dot_product_attention(*[h[:, None]] * 3, attn_mask=m.mask)[:, 0],
        mask=nn.Parameter(torch.zeros(1)),
    )
    spec = check(module, X)
    assert len(spec.unsupported) == 1 and "attention (its number of dimensions)" in spec.unsupported[0]
    assert spec.groups == {}


def test_a_fault_in_a_rule_is_not_taken_for_an_unknown_operation(monkeypatch):
    def faulty(recorder, arguments, shapes):
        return arguments["nothing of this name"]

    monkeypatch.setitem(RULES, "relu", faulty)
    with pytest.raises(KeyError):
        trace(Net(lambda m, h: F.relu(h)), X.float())


def test_products_and_concatenations_refine_each_other():
    whole = IndexSet(24)
    q, k, v = cut(whole, [8, 8, 8])
    heads, dims = IndexSet(2), IndexSet(4)
    unify(q, product([heads, dims]))
    unify(k, q)
    assert [part.size for part in structure(whole)[1]] == [8, 8, 8]
    assert atoms(whole) == [heads, dims, heads, dims, v.root()]
    unify(v, product([IndexSet(4), IndexSet(2)]))
    unify(v, q)
    assert not is_fixed(whole) and [atom.size for atom in atoms(v)] == [2, 2, 2]


def test_a_product_is_cut_along_its_slowest_factor():
    node = product([IndexSet(6), IndexSet(4)])
    unify(node, concat([IndexSet(8), IndexSet(16)]))
    assert [atom.size for atom in atoms(node)] == [2, 4, 4]
    assert not is_fixed(node)


def test_what_cannot_be_reconciled_is_fixed():
    for other in (product([IndexSet(3), IndexSet(2)]), concat([IndexSet(1), IndexSet(5)])):
        node = product([IndexSet(2), IndexSet(3)])
        unify(node, other)
        assert is_fixed(node) and is_fixed(other) and all(atom.mixed for atom in atoms(node))
    for mixed in (True, False):
        free, fixed = product([IndexSet(2), IndexSet(3)]), IndexSet(6)
        fix(fixed, mixed)
        unify(free, fixed)
        assert is_fixed(free) and {bool(atom.mixed) for atom in atoms(free)} == {mixed}


KINDS = ["linear", "norm", "group", "heads", "residual", "cat", "slice", "relu"]


class Stack(nn.Module):
    """Linear maps, norms, attention, splits and residuals on 12 features."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds
        self.maps = nn.ModuleList(nn.Linear(12, 12) for _ in range(len(kinds) + 1))
        self.halves = nn.ModuleList(nn.Linear(12, 6) for _ in kinds)
        self.readout = nn.Linear(12, 2)

    def forward(self, x):
        x = self.maps[-1](x)
        for kind, linear, half in zip(self.kinds, self.maps, self.halves, strict=False):
            if kind == "linear":
                x = linear(torch.relu(x))
            elif kind == "norm":
                x = F.layer_norm(x, (12,))
            elif kind == "group":
                x = F.group_norm(x, 3)
            elif kind == "heads":
                q, k, v = linear(x).view(-1, 3, 2, 2).unbind(1)
                x = x + F.pad((torch.softmax(q @ k.mT, -1) @ v).flatten(1), (0, 8))
            elif kind == "residual":
                x = x + torch.tanh(linear(x))
            elif kind == "cat":
                x = torch.cat([half(x), half(torch.relu(x))], 1)
            elif kind == "slice":
                x = torch.cat([x[:, 4:].sigmoid(), x[:, :4]], 1)
            else:
                x = torch.relu(x)
        return self.readout(x)


@settings(deadline=None, derandomize=True, max_examples=8)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_random_compositions_keep_their_function(kinds, seed):
    spec = check(Stack(kinds), torch.randn(4, 12, dtype=torch.float64), seed)
    assert spec.unsupported == ()


@settings(deadline=None, derandomize=True, max_examples=8)
@given(
    widths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    groups=st.integers(1, 3),
    norm=st.sampled_from([nn.BatchNorm2d, nn.Identity, lambda n: nn.GroupNorm(n // 2 or 1, n)]),
    seed=st.integers(0, 1000),
)
def test_random_convolutional_nets_keep_their_function(widths, groups, norm, seed):
    sizes_of = [2, *(groups * 2 * width for width in widths)]
    parts = []
    for n, (n_in, n_out) in enumerate(pairwise(sizes_of)):
        parts += [nn.Conv2d(n_in, n_out, 3, padding=1, groups=groups if n else 1), norm(n_out), nn.ReLU()]
    module = nn.Sequential(*parts, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * sizes_of[-1], 2))
    spec = check(module, torch.randn(3, 2, 4, 4, dtype=torch.float64), seed)
    assert spec.unsupported == ()
    assert spec.groups


TABLES = {"table": (6, 5), "matrix": (6, 6), "router": (4, 6), "up": (4, 5, 6), "down": (4, 6, 5), "bias": (4, 5)}


def batched_experts(module, h):
    """A mixture of experts as in transformers' "batched_mm": the two best of four, their weights picked."""
    weights, which = torch.topk((h @ module.router.T).softmax(-1), 2)
    ids = which.reshape(-1)
    x = h.repeat_interleave(2, 0).unsqueeze(-1)
    y = torch.relu(torch.bmm(module.up[ids], x).squeeze(-1) + module.bias[ids])
    y = torch.bmm(module.down[ids], y.unsqueeze(-1)).squeeze(-1) * weights.reshape(-1, 1)
    return y.view(len(h), 2, 6).sum(1)


def sorted_experts(module, h, shift=0):
    """The same as in "grouped_mm": tokens sorted by their experts, and put back; shift spoils the order."""
    weights, which = torch.topk((h @ module.router.T).softmax(-1), 2)
    ids, order = torch.sort(which.reshape(-1))
    ends = torch.histc(ids.double(), bins=4, min=0, max=3).cumsum(0, dtype=torch.int32)
    x = h[order // 2].roll(shift, 0) if shift else h[order // 2]
    y = torch.relu(grouped(x, module.up.mT, ends) + module.bias[ids])
    y = grouped(y, module.down.mT, ends) * weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return y[back].view(len(h), 2, 6).sum(1)


@torch.library.custom_op("planted::grouped_mm", mutates_args=())
def grouped(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """transformers' grouped_mm_fallback, under another name, for it may be imported beside these tests."""
    result, start = rows.new_zeros(len(rows), matrices.shape[2]), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        result[start:end] = rows[start:end] @ matrix
        start = end
    return result


@grouped.register_fake
def _(rows, matrices, ends):
    return rows.new_empty(rows.shape[0], matrices.shape[2])


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(RULES, "planted::grouped_mm", grouped_mm)
    monkeypatch.setattr(propagation, "POINTING", POINTING | {"planted::grouped_mm"})


H = {"first": (6,)}


@pytest.mark.parametrize(
    ("function", "n_enters", "expected"),
    [
        (lambda m, h: torch.topk(h, 3)[0], 3, H),
        (lambda m, h: h.sort(1)[0], 6, H),
        (lambda m, h: m.table[torch.topk(h, 2)[1]].sum(1), 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[h.argmax(1)], 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[h.max(1)[1]], 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[torch.cdist(h @ m.table, m.table).argmin(1)], 5, H | {"table": (5,)}),
        (lambda m, h: F.embedding(h.argmax(1), m.table), 5, H | {"table": (5,)}),
        (lambda m, h: m.table.index_select(0, h.argmax(1)), 5, H | {"table:1": (5,)}),
        (lambda m, h: F.one_hot(h.argmax(1), 6) * h, 6, H),
        (lambda m, h: F.one_hot(h.argmax(1), 6).to(h) @ m.table, 5, H | {"table": (5,)}),
        (lambda m, h: h.gather(1, torch.topk(h.sin(), 3)[1]), 3, H),
        (
            lambda m, h: h.view(-1, 2, 3).gather(1, torch.zeros_like(h[:, None, :3]).long()).flatten(1),
            3,
            {"first": (3,)},
        ),
        (lambda m, h: h * torch.zeros_like(h).scatter_(1, torch.topk(h.sin(), 3)[1], 1.0), 6, H),
        (lambda m, h: torch.zeros_like(h).scatter_add(1, torch.topk(h.sin(), 2)[1], torch.topk(h, 2)[0]), 6, H),
        (lambda m, h: torch.zeros_like(h).index_add(0, torch.arange(len(h)), h), 6, H),
        (lambda m, h: h.view(-1, 2, 3)[torch.arange(len(h)), (h.sum(1) > 0).long()], 3, {"first": (3,)}),
        (lambda m, h: h.view(-1, 2, 3)[:, [-1]].flatten(1), 3, {"first": (3,), "first:1": (3,)}),
        (lambda m, h: h.view(-1, 2, 3)[:, [1, 0]].flatten(1), 6, {"first": (3,)}),
        (
            lambda m, h: h.view(-1, 2, 3)[(h.sum(1, keepdim=True) > 0).expand(-1, 2) | True].view(len(h), -1, 3)[:, -1],
            3,
            {"first": (3,)},
        ),
        (lambda m, h: F.avg_pool2d(h.view(-1, 1, 2, 3), (2, 1)).flatten(1), 3, {"first": (3,)}),
        (lambda m, h: torch.meshgrid(torch.ones(1, dtype=h.dtype), h.sum(0), indexing="ij")[1] * h, 6, H),
        (lambda m, h: h * ((h.sum(1, keepdim=True) > 0) & (h > 0) | (h < -1)), 6, H),
        (lambda m, h: h.diff(dim=1), 5, {}),
        (lambda m, h: h[:, ::2] * h[:, 1::2].tanh(), 3, {"first": (3,)}),
        (lambda m, h: h[:, ::2] * h[:, :3], 3, {}),
        (batched_experts, 6, H | {"router": (4,), "up": (4, 5), "down": (6,)}),
        (sorted_experts, 6, H | {"router": (4,), "up": (4, 5), "down": (6,)}),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_picked_by_positions_may_be_renumbered(function, n_enters, expected, seed):
    tables = {name: nn.Parameter(torch.zeros(size)) for name, size in TABLES.items()}
    spec = check(Net(function, n_enters=n_enters, **tables).requires_grad_(False), X, seed)
    assert spec.unsupported == ()
    assert sizes(spec) == expected


@pytest.mark.parametrize(
    ("function", "n_enters", "expected"),
    [
        (lambda m, h: torch.topk(h, 2)[1] + 0 * h[:, :2], 2, {}),
        (lambda m, h: h.argmax(1, keepdim=True).clamp(max=3) * h, 6, {}),
        (lambda m, h: torch.topk(h, 3)[1].sort(1)[0] * 1.0, 3, {}),
        (lambda m, h: F.one_hot(h.argmax(1), 7).to(h) @ torch.ones(7, 3, dtype=h.dtype), 3, {}),
        (lambda m, h: torch.histc(h.argmax(1).to(h), bins=6, min=0, max=5).cumsum(0) * h, 6, {}),
        (lambda m, h: m.matrix[h.argmax(1), torch.topk(h, 1)[1][:, 0] % 2] * h.sum(1), 3, {}),
        (lambda m, h: sorted_experts(m, h, shift=1), 6, H | {"up": (5,), "down": (6,)}),
    ],
)
def test_positions_that_are_used_as_numbers_stay(function, n_enters, expected):
    module = Net(
        lambda m, h: function(m, h).to(h).reshape(len(h), -1).expand(-1, n_enters),
        n_enters=n_enters,
        **{name: nn.Parameter(torch.zeros(size)) for name, size in TABLES.items()},
    )
    assert sizes(check(module.requires_grad_(False), X)) == expected


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda m, h: torch.zeros_like(h).scatter(1, torch.topk(h.sin(), 2)[1], h), "another size than the positions"),
        (lambda m, h: torch.topk(h, 6)[1].scatter(1, h[:, :1].long() * 0, 0) * h, "positions to be written over"),
        (lambda m, h: h.view(-1, 2, 3).diagonal(1, 1, 2), "main diagonal of squares"),
        (lambda m, h: h.repeat_interleave(torch.tensor([1, 2, 1, 1, 1, 1]), 1, output_size=7), "repeats that are no"),
        (lambda m, h: torch.topk(h, 3)[1].sort(1)[0] * 1.0, "positions of several dimensions"),
    ],
)
def test_forms_of_operations_without_a_rule_are_told_and_keep_their_axes(function, told):
    with torch.no_grad():
        n_enters = function(None, torch.randn(2, 6)).flatten(1).shape[1]
    spec = check(Net(lambda m, h: function(m, h).to(h).flatten(1), n_enters=n_enters), X)
    assert sizes(spec) == {} and any(told in sentence for sentence in spec.unsupported), spec.unsupported


def test_the_experts_of_two_routers_are_not_told_apart_by_one():
    """Hidden units that two routings bring together may be renumbered only alike for all experts."""

    def function(m, h):
        weights, which = torch.topk((h @ m.router.T).softmax(-1), 2)
        one, other = (torch.relu(torch.bmm(m.up[which[:, n]], h.unsqueeze(-1)).squeeze(-1)) for n in (0, 1))
        return (torch.bmm(m.down[which[:, 0]], (one * other).unsqueeze(-1)).squeeze(-1)) * weights[:, :1]

    parts = {name: nn.Parameter(torch.zeros(TABLES[name])) for name in ("router", "up", "down")}
    assert sizes(check(Net(function, n_enters=6, **parts), X)) == H | {"router": (4,), "up": (5,), "down": (6,)}


def test_a_table_of_positions_longer_than_the_sequence_keeps_its_rows_and_frees_its_columns():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.last = nn.Embedding(9, 6), nn.Embedding(8, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.last((self.words(x) + self.places(torch.arange(x.shape[1]))).relu())

    spec = check(Positions(), torch.randint(0, 9, (3, 5), generator=torch.Generator().manual_seed(0)))
    assert spec.unsupported == ()
    assert spec.axes["places.weight"] == (None, "words") and spec.axes["words.weight"] == (None, "words")


class Bags(nn.Module):
    """Texts as the mean, sum or maximum of their words, and a residual layer on them."""

    def __init__(self, mode):
        super().__init__()
        self.words, self.hidden = nn.EmbeddingBag(7, 4, mode=mode), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        x = self.words(x)
        return self.last(x + self.hidden(x).relu())


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags_of_embeddings_keep_their_rows_in_place(mode):
    spec = check(Bags(mode), torch.randint(7, (5, 3)))
    (group,) = spec.groups
    assert spec.axes["words.weight"] == (None, group)
    assert spec.axes["hidden.weight"] == (group, group)
