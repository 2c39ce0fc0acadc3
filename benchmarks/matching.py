"""Matching a pair and weight matching against usual research code; what oneDNN's products gain in measures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from symlab import products
from symlab.alignment.forward import outputs
from symlab.alignment.matching import match_all
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.weight_matching import STATISTICS, weight_matching
from symlab.connectivity.path import curve, interpolate
from symlab.identifiability.recording import representation_covariances
from symlab.networks import MLP, Network, ResNet20, build
from symlab.symmetries.trace import trace

if TYPE_CHECKING:
    from run import Ways

WIDE = MLP(name="mlp", widths=[512, 512, 512])


def activation_matching_mlp() -> Ways:
    """Two MNIST-size MLPs on 54,000 images: streaming moments against keeping all activations."""
    A, B, x = build(WIDE, 784, 10).eval(), build(WIDE, 784, 10).eval(), torch.randn(54_000, 784)
    return {
        "streaming": partial(_match, A, B, x.split(1024)),
        "keeping, corrcoef": lambda: _keeping(A, B, x, lambda a, b: np.corrcoef(a.T, b.T)[: a.shape[1], a.shape[1] :]),
        "keeping, standardised": lambda: _keeping(A, B, x, lambda a, b: _standardised(a).T @ _standardised(b) / len(a)),
    }


def activation_matching_resnet20() -> Ways:
    """Two ResNet20 on 2,000 images in batches of 32, against nothing but their forward passes."""
    network: Network = ResNet20(name="resnet20")
    A, B = build(network, 3072, 10).eval(), build(network, 3072, 10).eval()
    batches = torch.randn(2_000, 3072).split(32)
    passes = lambda: [outputs(A, net.state_dict(), x) for x in batches for net in (A, B)]  # noqa: E731
    return {"matching": partial(_match, A, B, batches), "forward passes": passes}


def weight_matching_resnet50() -> Ways:
    """Two ResNet-50 (timm) against plain coordinate descent from the identity, as Git Re-Basin's code does it."""
    import timm

    nets = [timm.create_model("resnet50").eval() for _ in range(2)]
    A, B = ({name: tensor.detach() for name, tensor in net.state_dict().items()} for net in nets)
    spec = trace(nets[0], torch.zeros(2, 3, 64, 64)).spec
    counted = [name for name in A if name.rpartition(".")[2] not in STATISTICS]
    arrays = [{name: state[name].numpy().astype(np.float64) for name in counted} for state in (A, B)]
    axes, sizes = {name: spec.axes[name] for name in counted}, {name: group.size for name, group in spec.groups.items()}
    return {
        "symlab": lambda: weight_matching(spec, A, B, np.random.default_rng(0)),
        "by index": lambda: _descent(axes, *arrays, sizes, np.take),
        "by permutation matrices": lambda: _descent(axes, *arrays, sizes, _by_matrix),
    }


def curve_mlp() -> Ways:
    """Nine points between two MNIST-size MLPs, 10,000 images, against a pass of batches of 512 for each."""
    A, B = build(WIDE, 784, 10).eval(), build(WIDE, 784, 10).eval().state_dict()
    x, y, lambdas = torch.randn(10_000, 784), torch.arange(10_000) % 10, [i / 8 for i in range(9)]

    @torch.no_grad()
    def plain() -> None:
        for lam in lambdas:
            state = interpolate(A.state_dict(), B, lam)
            for images, labels in zip(x.split(512), y.split(512), strict=True):
                logits = torch.func.functional_call(A, state, images)
                nn.functional.cross_entropy(logits, labels, reduction="sum").item()
                (logits.argmax(dim=1) == labels).sum().item()

    return {"symlab": lambda: curve(A, A.state_dict(), B, lambdas, x, y, "classification"), "plain loop": plain}


def moments_by_library() -> Ways:
    """Moments of a pair of MLPs on 6,400 images; matrix products by torch and by oneDNN."""
    A, B, x = build(WIDE, 784, 10), build(WIDE, 784, 10).state_dict(), torch.randn(6400, 784)
    traced = trace(A, x[:2])
    return _by_library(lambda: record_pair_moments(traced, {0: A.state_dict()}, {0: B}, x.split(1024)))


def curve_by_library() -> Ways:
    """Five points between two MLPs, 4,096 images."""
    A, B, x, y = (
        build(WIDE, 784, 10),
        build(WIDE, 784, 10).state_dict(),
        torch.randn(4096, 784),
        torch.arange(4096) % 10,
    )
    return _by_library(lambda: curve(A, A.state_dict(), B, [0.0, 0.25, 0.5, 0.75, 1.0], x, y, "classification"))


def covariances_by_library() -> Ways:
    """Covariances for swap costs, 6,400 images."""
    A, x = build(WIDE, 784, 10), torch.randn(6400, 784)
    return _by_library(lambda: representation_covariances(A, A.state_dict(), x.split(1024)))


def _by_library(work: Callable[[], Any]) -> Ways:
    def by(library: str) -> None:
        os.environ[products.VARIABLE] = library
        with products.fast_products():
            work()
        del os.environ[products.VARIABLE]

    return {library: partial(by, library) for library in ("torch", "onednn")}


def _match(A: nn.Module, B: nn.Module, batches: tuple[Tensor, ...]) -> None:
    traced = trace(A, batches[0][:2])
    moments = record_pair_moments(traced, {0: A.state_dict()}, {0: B.state_dict()}, batches)[0]
    match_all({group: of_group.correlation() for group, of_group in moments.items()}, traced.spec.groups)


def _keeping(A: nn.Module, B: nn.Module, x: Tensor, correlate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    kept: list[list[list[Tensor]]] = [[[] for _ in net.activations] for net in (A, B)]
    handles = [
        activation.register_forward_hook(lambda m, i, output, into=into: into.append(output))
        for net, of_net in zip((A, B), kept, strict=True)
        for activation, into in zip(net.activations, of_net, strict=True)
    ]
    with torch.no_grad():
        for batch in x.split(64):
            A(batch), B(batch)
    for handle in handles:
        handle.remove()
    for a, b in zip(*kept, strict=True):
        linear_sum_assignment(correlate(torch.cat(a).numpy(), torch.cat(b).numpy()), maximize=True)


def _standardised(z: np.ndarray) -> np.ndarray:
    return (z - z.mean(axis=0)) / z.std(axis=0)


def _by_matrix(w: np.ndarray, pi: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(np.eye(len(pi), dtype=w.dtype)[pi], w, (1, axis)), 0, axis)


def _descent(
    axes: Mapping[str, tuple[Any, ...]],
    A: dict[str, np.ndarray],
    B: dict[str, np.ndarray],
    sizes: Mapping[str, int],
    renumber: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
) -> dict[str, np.ndarray]:
    """Permutations by group, until a pass over all groups in random order gains nothing."""
    rng, groups = np.random.default_rng(0), list(sizes)
    permutation = {group: np.arange(size) for group, size in sizes.items()}
    progress = True
    while progress:
        progress = False
        for index in rng.permutation(len(groups)):
            group, n = groups[index], sizes[groups[index]]
            S = np.zeros((n, n))
            for name, axis in [
                (tensor, axis) for tensor in axes for axis, at in enumerate(axes[tensor]) if at == group
            ]:
                w = B[name]
                for other, of_other in enumerate(axes[name]):
                    if other != axis and of_other is not None:
                        w = renumber(w, permutation[of_other], other)
                a, b = (np.moveaxis(each, axis, 0).reshape(n, -1) for each in (A[name], w))
                S += a @ b.T
            _, found = linear_sum_assignment(S, maximize=True)
            before, after = (S[np.arange(n), pi].sum() for pi in (permutation[group], found))
            progress, permutation[group] = progress or after > before + 1e-12, found
    return permutation
