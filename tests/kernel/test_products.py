"""Products by oneDNN against float64's, in all forms in which networks multiply."""

import platform
import time
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional

from symlab import device, products
from symlab.cli import main
from symlab.errors import UserError
from symlab.products import fast_products, products_by
from symlab.symmetries.trace import trace

ONEDNN = pytest.mark.skipif(not products._offered(), reason="this torch does not offer oneDNN's products")
SEVEN_DIGITS = {"rtol": 1e-5, "atol": 1e-4}


@pytest.fixture
def by_onednn(monkeypatch):
    """oneDNN on any processor; a list of the products that it was given."""
    monkeypatch.setenv(products.VARIABLE, "onednn")
    given, linear = [], products._linear

    def counted(x, W, bias=None):
        given.append((*x.shape, len(W)))
        return linear(x, W, bias)

    monkeypatch.setattr(products, "_linear", counted)
    return given


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, W, B = normal(96, 288), normal(320, 288, seed=1), normal(320, seed=2)
MODULE = nn.Linear(288, 320)


def of_stack(X, W, B):
    """A linear map of two replicas, vmapped as training's stacks are."""
    parameters = {"weight": torch.stack([W, -2 * W]), "bias": torch.stack([B, B])}
    return vmap(lambda p, x: functional_call(MODULE, p, (x,)))(parameters, X.expand(2, -1, -1))


FORMS = {
    "linear": (lambda X, W, B: functional.linear(X, W, B), 1),
    "without a bias": (lambda X, W, B: functional.linear(X, W), 1),
    "tokens": (lambda X, W, B: functional.linear(X.view(4, 24, -1), W, B), 1),
    "of every second row": (lambda X, W, B: functional.linear(X.repeat(2, 1)[::2], W, B), 1),
    "of transposed inputs": (lambda X, W, B: functional.linear(X.T.contiguous().T, W, B), 1),
    "of transposed weights": (lambda X, W, B: functional.linear(X, W.T.contiguous().T, B), 1),
    "of a part of larger weights": (lambda X, W, B: functional.linear(X, W.repeat(1, 2)[:, :288], B), 1),
    "of expanded inputs": (lambda X, W, B: functional.linear(X[:1].expand(96, -1), W, B), 1),
    "matmul of a stack": (lambda X, W, B: X.expand(3, -1, -1) @ W.T, 3),
    "einsum of stacks": (lambda X, W, B: torch.einsum("rij,rkj->rik", torch.stack([X, -X]), torch.stack([W, W])), 2),
    "baddbmm": (lambda X, W, B: torch.baddbmm(B.expand(2, 1, -1), X.expand(2, -1, -1), W.T.expand(2, -1, -1)), 2),
    "bmm to a given place": (lambda X, W, B: torch.bmm(X[None], W.T[None], out=X.new_empty(1, 96, 320)), 1),
    "vmapped": (of_stack, 2),
    "in inference mode": (torch.inference_mode()(lambda X, W, B: functional.linear(X, W, B)), 1),
}


@ONEDNN
@pytest.mark.parametrize("form", FORMS)
def test_products_are_those_of_float64(by_onednn, form):
    compute, expected = FORMS[form]
    with fast_products():
        found = compute(X, W, B)
    assert len(by_onednn) == expected
    torch.testing.assert_close(found.double(), compute(X.double(), W.double(), B.double()), **SEVEN_DIGITS)


@ONEDNN
@pytest.mark.parametrize("form", ["linear", "tokens", "of transposed weights", "vmapped"])
def test_gradients_are_those_of_float64(by_onednn, form):
    compute, _ = FORMS[form]

    def gradients(*tensors):
        leaves = [each.clone().requires_grad_() for each in tensors]
        first = torch.autograd.grad(compute(*leaves).sigmoid().square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first) / 1000, leaves)
        return [each.detach().double() for each in (*first, *second)]

    with fast_products():
        found = gradients(X, W, B)
    # Forward and backward pass, and the gradient's gradient.
    assert len(by_onednn) > 4 * FORMS[form][1]
    for each, expected in zip(found, gradients(X.double(), W.double(), B.double()), strict=True):
        torch.testing.assert_close(each, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@ONEDNN
@pytest.mark.parametrize(
    "a, b",
    [
        (normal(0, 512), normal(512, 512)),
        (normal(512, 0), normal(0, 512)),
        (normal(512), normal(512, 512)),
        (normal(16, 1024), normal(1024, 1024)),
        (normal(64, 64), normal(64, 64)),
        (normal(1024, 128).T, normal(1024, 128)),
        (normal(256, 256).double(), normal(256, 256).double()),
        (normal(256, 256).bfloat16(), normal(256, 256).bfloat16()),
    ],
    ids=["no rows", "no columns", "a vector", "few rows", "small", "a copy for few columns", "float64", "bfloat16"],
)
def test_other_products_are_torchs_bit_for_bit(by_onednn, a, b):
    expected = a @ b
    with fast_products():
        found = a @ b
    assert by_onednn == [] and torch.equal(found, expected)


@ONEDNN
@pytest.mark.parametrize("factors", [{"beta": 2}, {"alpha": 0.5}])
def test_sums_of_multiples_are_torchs_bit_for_bit(by_onednn, factors):
    def sums():
        return torch.addmm(B, X, W.T, **factors), torch.baddbmm(B.expand(1, 1, -1), X[None], W.T[None], **factors)

    expected = sums()
    with fast_products():
        found = sums()
    assert by_onednn == [] and all(map(torch.equal, found, expected))


@ONEDNN
def test_a_part_of_a_larger_matrix_takes_no_longer(by_onednn):
    """oneDNN itself takes a thousand times as long for it as for a copy."""

    def seconds(right):
        with fast_products():
            X @ right
            start = time.process_time()
            for _ in range(5):
                X @ right
        return time.process_time() - start

    part = normal(300, 700)[:288, :320]
    assert seconds(part) < 50 * seconds(part.contiguous())
    assert len(by_onednn) == 12


@ONEDNN
def test_torch_multiplies_as_before_outside_and_after_an_error(by_onednn):
    with pytest.raises(ZeroDivisionError), fast_products(), fast_products():
        X @ W.T
        raise ZeroDivisionError
    assert len(by_onednn) == 1
    X @ W.T
    assert len(by_onednn) == 1


@ONEDNN
def test_nothing_is_warned_of(by_onednn):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fast_products():
            X @ W.T


@ONEDNN
def test_a_replica_has_the_same_bits_in_every_stack(by_onednn):
    rows, weights = normal(6, 96, 288), normal(6, 320, 288, seed=1)
    with fast_products():
        together = torch.bmm(rows, weights.mT)
        alone = torch.bmm(rows[3:4], weights[3:4].mT)
        single = rows[3] @ weights[3].T
    assert torch.equal(together[3], alone[0]) and torch.equal(single, alone[0])


@ONEDNN
def test_a_network_is_traced_as_ever(by_onednn):
    module = nn.Sequential(nn.Linear(288, 320), nn.ReLU(), nn.Linear(320, 10))
    plain = trace(module, X)
    with fast_products():
        assert trace(module, X).spec == plain.spec


@pytest.mark.parametrize(
    ("told", "maker", "family"),
    [
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\n", "GenuineIntel", 6),
        ("CPU part\t: 0xd0c\n", platform.machine(), None),
    ],
)
def test_a_processor_is_named_by_its_maker_where_linux_tells(monkeypatch, told, maker, family):
    monkeypatch.setattr(device, "Path", lambda _: SimpleNamespace(exists=lambda: True, read_text=lambda: told))
    assert device.processor.__wrapped__() == f"{maker} {torch.backends.cpu.get_cpu_capability()}"
    assert device.processor_family.__wrapped__() == family


@pytest.mark.parametrize(
    "processor, family, chosen",
    [
        ("AuthenticAMD AVX512", 26, "onednn"),
        ("AuthenticAMD AVX512", 25, "torch"),
        ("AuthenticAMD AVX2", 26, "torch"),
        ("GenuineIntel AVX512", 26, "torch"),
        ("aarch64 DEFAULT", None, "torch"),
    ],
)
@ONEDNN
def test_the_processor_decides_which_library(monkeypatch, processor, family, chosen):
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(products, "processor", lambda: processor)
    monkeypatch.setattr(products, "processor_family", lambda: family)
    assert products_by() == chosen


def test_a_variable_overrules_the_processor(monkeypatch):
    monkeypatch.setattr(products, "processor", lambda: "AuthenticAMD AVX512")
    monkeypatch.setattr(products, "processor_family", lambda: 26)
    monkeypatch.setenv(products.VARIABLE, "torch")
    assert products_by() == "torch"
    monkeypatch.setenv(products.VARIABLE, "mkl")
    with pytest.raises(UserError, match="SYMLAB_PRODUCTS is 'mkl'; it must be onednn or torch"):
        products_by()


@pytest.mark.parametrize("fault", ["absent", "other arguments", "other results"])
def test_without_the_operator_torch_multiplies(monkeypatch, fault):
    def other(*arguments):
        if fault == "absent":
            raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")
        if fault == "other arguments":
            raise RuntimeError("mkldnn::_linear_pointwise() expected at most 5 argument(s)")
        return torch.zeros(1, 1)

    monkeypatch.setattr(products, "_linear", other)
    monkeypatch.setattr(products, "processor", lambda: "AuthenticAMD AVX512")
    monkeypatch.setattr(products, "processor_family", lambda: 26)
    monkeypatch.delenv(products.VARIABLE, raising=False)
    products._offered.cache_clear()
    try:
        assert products_by() == "torch"
        with fast_products():
            torch.testing.assert_close((X @ W.T).double(), X.double() @ W.double().T, **SEVEN_DIGITS)
        monkeypatch.setenv(products.VARIABLE, "onednn")
        with pytest.raises(UserError, match="does not offer its products; unset it"):
            products_by()
    finally:
        monkeypatch.undo()
        products._offered.cache_clear()


def test_the_version_names_the_library(monkeypatch, capsys):
    monkeypatch.setenv(products.VARIABLE, "torch")
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and "float32 products on the CPU: torch" in capsys.readouterr().out
