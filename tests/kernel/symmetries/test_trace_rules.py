"""Single operations, attention, and forward passes that are refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symlab.errors import UserError
from symlab.symmetries import dependence
from symlab.symmetries.symmetry_spec import Concat, Product
from symlab.symmetries.trace import trace

from .nets import Net, X, check, found, sizes


@pytest.mark.parametrize(
    ("function", "expected"),
    [(lambda m, h: torch.renorm(h, 2, 0, 1.0), "renorm"), (lambda m, h: torch.fft.hfft(h, n=6), "fft_hfft")],
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
        (lambda m, h: torch.einsum("...i,...i->...i", h.expand(2, 3, 6), h.tanh())[1], None, {"first": (6,)}),
        (lambda m, h: h @ m.matrix + h, None, {"first": (6,)}),
        (lambda m, h: h.max(1, keepdim=True)[0].expand(-1, 6) + h, None, {"first": (6,)}),
        (lambda m, h: h.view(-1, 2, 3) @ m.three, 3, {"first": (2,), "first:1": (2, 3)}),
        (lambda m, h: h.unsqueeze(2) * m.scale, 30, {"first": (6,), "scale": (5,)}),
        (lambda m, h: h.max(1, keepdim=True)[1] + h, None, {}),
        (lambda m, h: h * (h.argmax(1, keepdim=True) + 1), None, {}),
        (lambda m, h: h * (h.argmax() + 1), None, {}),
        (lambda m, h: h * torch.eye(6, h.shape[0], dtype=h.dtype).T, None, {}),
        (lambda m, h: h * torch.ones_like(h.reshape(h.shape[0], 2, 3)).sum(), None, {"first": (6,)}),
        (lambda m, h: h.view(-1, 2, 3).mT.reshape(-1, 6)[:, :3], 3, {}),
        (lambda m, h: torch.cat([h, h[:, 6:].repeat(1, 2)], 1), None, {"first": (6,)}),
    ],
)
def test_single_operations(function, n_enters, expected):
    if n_enters == 3 and "three" in function.__code__.co_names:
        module = Net(lambda m, h: function(m, h).flatten(1), n_enters=6, three=nn.Parameter(torch.zeros(3, 3)))
        expected = {"first": (2,), "first:1": (3,), "three": (3,)}
    else:
        parts = {"matrix": nn.Parameter(torch.zeros(6, 6)), "scale": nn.Parameter(torch.zeros(5))}
        module = Net(lambda m, h: function(m, h).flatten(1), n_enters=n_enters, **parts)
    assert found(module, X) == expected


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
    assert found(module, X) == {"first": (6,), "middle": (6,)}


def test_a_kronecker_product_repeats_its_neurons():
    assert found(Net(lambda m, h: torch.kron(h, torch.tensor([[1.0, 2.0]], dtype=h.dtype)), n_enters=12), X) == {
        "first": (6,)
    }


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


def many_at_once(module, h):
    h = torch.max(h, torch.addmm(h, h, module.matrix))
    h = torch.cat([h[:, 2:2], h], 1) * torch.empty_like(h).fill_(2.0) + h.median()
    h = F.scaled_dot_product_attention(h[None], h[None], h[None], is_causal=True)[0]
    return F.bilinear(h, h.tanh(), module.cube, module.vector)


def numbers_on_a_diagonal(module, h):
    """They are written into the memory of what is read afterwards."""
    h = h[:, :, None] * module.matrix
    h.diagonal(0, 1, 2).mul_(torch.linspace(1, 2, 6, dtype=h.dtype))
    return h.sum(2)


def many_that_hold(module, h):
    """Two neurons each: in one window, reflected at the edge, beside numbers that differ."""
    window, edge, rising = h.split(2, 1)
    numbers = torch.linspace(1, 2, 2, dtype=h.dtype)
    return torch.cat([window.unfold(1, 2, 1)[:, 0], F.pad(edge, (1, 1), "reflect")[:, :2], rising * numbers], 1).tanh()


PARAMETERS = {"vector": (6,), "matrix": (6, 6), "cube": (6, 6, 6), "pixels": (1, 6, 3), "kernel": (6, 6, 1)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (moved_pixels, {"first": (6,), "kernel": (6,)}),
        (many_at_once, {"first": (6,), "cube": (6,)}),
        (many_that_hold, {}),
        (lambda m, h: h.unsqueeze(2).repeat(1, 1, 4).sum(2) * m.vector, {"first": (6,)}),
        (numbers_on_a_diagonal, {}),
        (lambda m, h: F.channel_shuffle(h[:, :, None, None], 3).flatten(1).tanh(), {"first": (3,), "first:1": (3, 2)}),
        (lambda m, h: h.index_select(1, (m.vector > 0).long()), {"vector": (6,)}),
        (lambda m, h: h[:, (m.vector > 0).long()], {"vector": (6,)}),
        # Regions that do not factor.
        (lambda m, h: h.view(-1, 2, 3).softmax(2).view(-1, 3, 2).flatten(1) * m.vector, {}),
        (
            lambda m, h: (h @ torch._weight_norm_interface(m.matrix, m.vector[:, None], 0)[0]).tanh(),
            {"first": (6,), "matrix": (6,)},
        ),
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
    assert found(Net(lambda m, h: function(m, h).flatten(1), **parts), X) == expected


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


def test_of_more_combinations_than_are_looked_at_none_is_within_another(monkeypatch):
    monkeypatch.setattr(dependence, "MAX_BLOCKS", 0)
    module = nn.Sequential(nn.Conv2d(4, 12, 1), nn.GroupNorm(4, 12), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    assert found(module, torch.randn(2, 4, 2, 2, dtype=torch.float64)) == {"0": (4,), "0:1": (3,)}


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

    assert found(Resampled(), torch.randn(3, 4, 4, 4, dtype=torch.float64)) == {"a": (free,)}


def test_channels_pass_from_windows_into_the_image_that_they_are_folded_to():
    module = nn.Sequential(
        nn.Conv2d(4, 6, 1), nn.Unfold(2, stride=2), nn.Fold(4, 2, stride=2), nn.ReLU(), nn.Conv2d(6, 2, 1)
    )  # fmt: skip
    assert found(module, torch.randn(2, 4, 4, 4, dtype=torch.float64)) == {"0": (6,)}


def test_pixels_of_windows_stay_where_they_are_folded():
    module = nn.Sequential(nn.Linear(4, 12), nn.Unflatten(1, (12, 1)), nn.Fold(2, 2), nn.ReLU(), nn.Conv2d(3, 2, 1))
    spec = check(module, X)
    assert sizes(spec) == {"0": (3,)}
    assert spec.axes["0.weight"] == (Product(("0", 4)), None)


def test_channels_keep_their_pixels_when_these_become_channels():
    module = nn.Sequential(nn.Conv2d(4, 6, 1), nn.PixelUnshuffle(2), nn.BatchNorm2d(24), nn.Conv2d(24, 2, 1))
    spec = check(module, torch.randn(2, 4, 4, 4, dtype=torch.float64))
    assert sizes(spec) == {"0": (6,)} and spec.axes["3.weight"] == (None, Product(("0", 4)), None, None)


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


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("copied", "expected"), [(False, {}), (True, {"first": (6,)})])
def test_parameters_that_share_memory_in_another_layout_stay(before, copied, expected):
    module = Net(lambda m, h: F.relu(h)).double()
    transposed = module.first.weight.detach().T
    (module if before else module.last).register_buffer("transposed", transposed.clone() if copied else transposed)
    assert sizes(trace(module, X).spec) == expected


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


class Described(nn.Linear):
    """Its state holds words beside the weights."""

    def get_extra_state(self):
        return "words"

    def set_extra_state(self, state):
        pass


def test_a_state_that_holds_no_tensor_is_refused():
    with pytest.raises(UserError, match=r"'middle\._extra_state' in the network's state is no tensor"):
        trace(Net(lambda m, h: m.middle(F.relu(h)), middle=Described(6, 6)), torch.zeros(2, 4))


def test_what_is_no_module_is_refused():
    with pytest.raises(UserError, match="not a function"):
        trace(lambda x: x, torch.zeros(2, 4))


def test_forward_passes_that_depend_on_values_are_refused():
    module = Net(lambda m, h: h if float(h.sum()) > 0 else -h)
    with pytest.raises(UserError, match="forward pass of Net cannot be traced"):
        trace(module, torch.zeros(2, 4))
