"""Deeper networks from shallower ones: blocks split into two that share the branch, or blocks of zeros behind them.

Two halves spend less penalty: |W / 2|^2 + |W / 2|^2 is half of |W|^2; that is the paper's proof. With two linear layers
a block half a branch has both matrices over sqrt(2), and the penalty stays. Halves of a branch that is as large as the
stream are another map, though, whose loss may be thirty times as high; the less the second block has of the branch, the
less the map changes. Zeros change nothing, and stay zeros.
"""

import re

import torch

from symlab.schemes.fixed_parts import State

BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")
TWO = re.compile(r"(linears\.)?1\.weight")


def blocks_of(state: State) -> list[State]:
    """The tensors of each block, by their names within it."""
    blocks: dict[int, State] = {}
    for name, tensor in state.items():
        if found := BLOCK.fullmatch(name):
            blocks.setdefault(int(found[1]), {})[found[2]] = tensor
    return [blocks[place] for place in sorted(blocks)]


def with_blocks(state: State, blocks: list[State]) -> State:
    """The same embedding and readout, with other blocks between them."""
    kept = {name: tensor for name, tensor in state.items() if not BLOCK.fullmatch(name)}
    return kept | {f"blocks.{b}.{name}": t for b, block in enumerate(blocks) for name, t in block.items()}


def grow(state: State, blocks: int, share: float = 0.5) -> State:
    """A network of so many blocks: spread evenly, as many as needed are split, again and again.

    Args:
        share: of the branch of a block that is split, for the second of the two. Halves attend where the whole did;
            of unequal parts the smaller attends to all alike, or both would have the penalty of it.
    """
    found = blocks_of(state)
    while len(found) < blocks:
        more = min(blocks - len(found), len(found))
        chosen = {round((number + 0.5) * len(found) / more - 0.5) for number in range(more)}
        shares = [(1 - share, share) if place in chosen else (1.0,) for place in range(len(found))]
        found = [part_of(block, each) for block, parts in zip(found, shares, strict=True) for each in parts]
    return with_blocks(state, found)


def part_of(block: State, share: float) -> State:
    """A block with a share of the branch; what is less than half of it attends by as much less."""
    products = [r"(linears\.)?[01]\.weight", r"(linears\.)?0\.bias"] if any(TWO.fullmatch(n) for n in block) else []
    products += [r"attention\.(value|output|query|key)\.weight"]

    def power(name: str) -> float:
        if share >= 1 / 2 and re.search("query|key", name):
            return 0
        return 0.5 if any(re.fullmatch(pattern, name) for pattern in products) else 1

    return {name: tensor * share ** power(name) for name, tensor in block.items()}


def pad(state: State, blocks: int) -> State:
    """The same map with so many blocks, those behind the first ones of zeros."""
    found = blocks_of(state)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in found[-1].items()}
    return with_blocks(state, [*found, *[zeros] * (blocks - len(found))])
