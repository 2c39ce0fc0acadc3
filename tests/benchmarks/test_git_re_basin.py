"""Weight matching of two ResNet-50 against a plain coordinate descent in the manner of Git Re-Basin's code, same run.

``pytest tests/benchmarks/test_git_re_basin.py -s`` in an environment with the extra ``models``. Both start at the
identity and end when a pass over all groups gains nothing; the plain one loops over the parameters of
a group, renumbers each by all its other groups' permutations and adds up one product a parameter and axis. ``dense``
renumbers by products with permutation matrices, ``indexed`` by indices; each in float64 and in the weights' float32.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import STATISTICS, weight_matching
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.symmetries.trace import trace

Arrays = dict[str, np.ndarray]
Renumber = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def by_matrix(w: np.ndarray, pi: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(np.eye(len(pi), dtype=w.dtype)[pi], w, (1, axis)), 0, axis)


def by_index(w: np.ndarray, pi: np.ndarray, axis: int) -> np.ndarray:
    return np.take(w, pi, axis)


def plain_matching(
    axes: Mapping[str, tuple], A: Arrays, B: Arrays, sizes: Mapping[str, int], renumber: Renumber, seed: int
) -> dict[str, np.ndarray]:
    """Permutations by group, from the identity, until a pass over all groups in random order gains nothing."""
    rng = np.random.default_rng(seed)
    permutation = {group: np.arange(size) for group, size in sizes.items()}
    where = {
        group: [(name, n) for name in axes for n, axis in enumerate(axes[name]) if axis == group] for group in sizes
    }
    groups = list(sizes)
    progress = True
    while progress:
        progress = False
        for index in rng.permutation(len(groups)):
            group, n = groups[index], sizes[groups[index]]
            S = np.zeros((n, n), dtype=A[where[group][0][0]].dtype)
            for name, axis in where[group]:
                w = B[name]
                for other, of_other in enumerate(axes[name]):
                    if other != axis and of_other is not None:
                        w = renumber(w, permutation[of_other], other)
                a, b = (np.moveaxis(each, axis, 0).reshape(n, -1) for each in (A[name], w))
                S += a @ b.T
            _, found = linear_sum_assignment(S, maximize=True)
            before, after = (np.vdot(S, np.eye(n)[pi]) for pi in (permutation[group], found))
            progress = progress or after > before + 1e-12
            permutation[group] = found
    return permutation


def objective(spec: SymmetrySpec, A: dict, B: dict, permutations: dict) -> float:
    """<A, permuted B> over the product of their norms."""
    moved = permute(B, spec, permutations)
    inner, square_A, square_B = (
        sum(float((p[name].double() * q[name].double()).sum()) for name in counted(A))
        for p, q in ((A, moved), (A, A), (moved, moved))
    )
    return inner / (square_A * square_B) ** 0.5


def counted(state: Mapping[str, torch.Tensor]) -> list[str]:
    return [name for name in state if name.rpartition(".")[2] not in STATISTICS]


@pytest.mark.parametrize("threads", [1, 2])
def test_resnet50_against_a_plain_coordinate_descent(threads):
    timm = pytest.importorskip("timm", reason="the extra 'models' is not installed")
    torch.manual_seed(0)
    nets = [timm.create_model("resnet50").eval() for _ in range(2)]
    A, B = ({name: tensor.detach() for name, tensor in net.state_dict().items()} for net in nets)
    spec = trace(nets[0], torch.zeros(2, 3, 64, 64)).spec
    in_float32 = [{name: state[name].numpy() for name in counted(state)} for state in (A, B)]
    in_float64 = [{name: array.astype(np.float64) for name, array in arrays.items()} for arrays in in_float32]
    axes = {name: spec.axes[name] for name in counted(A)}
    sizes = {name: group.size for name, group in spec.groups.items()}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    rows: dict[str, tuple[float, float, float]] = {}

    def timed(name: str, match: Callable[[], dict[str, np.ndarray]]) -> None:
        start, cpu = time.perf_counter(), time.process_time()
        permutations = match()
        seconds = time.perf_counter() - start, time.process_time() - cpu
        rows[name] = (*seconds, objective(spec, A, B, permutations))
        told = "{}: wall {:.1f} s, CPU {:.1f} s, objective {:.12f}".format(name, *rows[name])
        print(f"\n{threads} thread(s), {told}")

    try:
        with threadpool_limits(threads):
            timed("symlab", lambda: weight_matching(spec, A, B, np.random.default_rng(0)).permutations)
            for arrays, dtype in ((in_float64, "float64"), (in_float32, "float32")):
                for name, renumber in {"indexed": by_index, "dense": by_matrix}.items():
                    timed(f"{name} {dtype}", partial(plain_matching, axes, *arrays, sizes, renumber, 0))
    finally:
        torch.set_num_threads(before)
    ratios = {name: row[1] / rows["symlab"][1] for name, row in rows.items()}
    print(f"CPU time over symlab's: {ratios}; load {os.getloadavg()[0]:.1f}")
    # The goal was ten times as fast, which docs/explanation/performance.md says is missed.
    assert min(ratios.values()) >= 1
    assert all(rows["symlab"][2] >= row[2] - 1e-12 for row in rows.values())
