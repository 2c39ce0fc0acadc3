"""Two kinds of residual networks of one layer a block: each continued to the depths where the other has the lower loss.

    python benchmarks/collapse_kinds.py [--effort 800]

Three networks of 2 layers on 300 digits are deepened by blocks of zeros, and networks of 8 layers that grew from them
are made shallow by blocks that are the sum of neighbours; then all are minimised for half the effort. For each depth
and origin it prints medians over networks: the loss and its parts, NC1, and the size of the largest branch and of the
median one over that of the stream.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch

from symlab.data import Digits
from symlab.data.digits import load
from symlab.measures.job import Job
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.growth import blocks_of, pad, with_blocks
from symlab.papers.neural_collapse.samples import Samples, samples_of, within_over_between
from symlab.papers.neural_collapse.settings import Runs
from symlab.papers.neural_collapse.trained_runs import Descent, losses_of, minimise_depth, objective_on
from symlab.schemes.fixed_parts import State
from symlab.training.on_samples import TrainingData

DEPTHS = (2, 3, 4, 5, 8)
PENALTY = 0.005


def merged(state: State, blocks: int) -> State:
    """A network of fewer blocks, each the sum of neighbours: what small branches add to a stream one after another."""
    found = blocks_of(state)
    groups = np.array_split(np.arange(len(found)), blocks)
    return with_blocks(state, [{n: sum(found[b][n] for b in group) for n in found[0]} for group in groups])  # type: ignore[misc]


@torch.no_grad()
def parts(state: State, member: int, L: int, samples: Samples) -> list[float]:
    """Loss, fit, penalties of blocks and of the last layer, NC1, sizes of the largest branch and of the median one."""
    network = LayerNormResNet(samples.x.shape[1], samples.classes, 64, L).double()
    network.load_state_dict({name: tensor[member] for name, tensor in state.items()})
    layers = network.features(samples.x.double())
    data = TrainingData(samples.x, samples.y, samples.x[:0], samples.y[:0], "classification").widened()
    fit, hidden, last = losses_of(network, data, (PENALTY, PENALTY)).values()
    read = zip(network.blocks, layers[:-1], strict=True)
    # A normalised stream has the norm 8.
    branches = [torch.relu(block[0](z)).norm(dim=1).mean() / 8 for block, z in read]
    NC1 = within_over_between(layers[-1], samples.y, samples.classes)
    found = [fit + hidden + last, fit, hidden, last, NC1, max(branches), torch.stack(branches).median()]
    return [float(each) for each in found]


def main() -> None:
    """Minimise, continue and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", type=int, default=800)
    effort = parser.parse_args().effort
    torch.set_num_threads(1)
    job = Job("kinds", datasets={"digits": load(Digits(source="digits"), None)})
    grid = Runs(network="rn1", L=[2, 3, 5, 8], per_class=30, effort=effort, reference=0, penalty=PENALTY)
    samples = samples_of(grid, job.datasets["digits"])
    states, before = {}, None
    for L, after in zip(grid.L, (0, *grid.L), strict=False):
        before = minimise_depth(grid, job, "digits", L, after, before)
        states[L] = {n.removeprefix("state/"): torch.from_numpy(a) for n, a in before.items() if n.startswith("state/")}
    print("L   from  loss    fit     blocks  last    NC1    largest median branch")
    for L in DEPTHS:
        for origin, make in ((2, pad), (8, merged)):
            start, build = make(states[origin], L - 1), (lambda L=L: LayerNormResNet(64, 10, 64, L))
            data, key = objective_on(grid, samples), ("kinds", f"{origin} {L}")
            descent = Descent(build, data, (PENALTY, PENALTY), key, 0, effort // (2 * L), 0.1, grid.seeds, start=start)
            state, _ = replace(descent, single=0.5).run(job)
            found = np.median([parts(state, member, L, samples) for member in range(grid.seeds)], axis=0)
            print(f"{L}   {origin}     " + "  ".join(f"{value:.4f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
