"""Deeper networks from shallower ones: blocks split into two of half the branch, or blocks of zeros put behind them.

A split spends less penalty on the same map: |W / 2|^2 + |W / 2|^2 is half of |W|^2; that is the paper's proof. With two
linear layers a block half a branch has both matrices over sqrt(2), and the penalty stays. Zeros change nothing.
"""

from __future__ import annotations

import math
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


def grow(state: State, blocks: int) -> State:
    """A network of so many blocks: spread evenly, as many as needed are split, again and again.

    Both halves of attention look where the whole looked.
    """
    found = blocks_of(state)
    while len(found) < blocks:
        more = min(blocks - len(found), len(found))
        chosen = {round((number + 0.5) * len(found) / more - 0.5) for number in range(more)}
        found = [half for place, block in enumerate(found) for half in (halves(block) if place in chosen else [block])]
    return with_blocks(state, found)


def halves(block: State) -> tuple[State, State]:
    """Two blocks, each of half the branch."""
    products = [r"(linears\.)?[01]\.weight", r"(linears\.)?0\.bias"] if any(TWO.fullmatch(n) for n in block) else []
    shares = {"attention.value": math.sqrt(2), "attention.output": math.sqrt(2)}

    def share(name: str) -> float:
        if re.search("query|key", name):
            return 1
        root = any(re.fullmatch(pattern, name) for pattern in products)
        return math.sqrt(2) if root else shares.get(name.removesuffix(".weight"), 2)

    half = {name: tensor / share(name) for name, tensor in block.items()}
    return half, half


def pad(state: State, blocks: int) -> State:
    """The same map with so many blocks, those behind the first ones of zeros."""
    found = blocks_of(state)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in found[-1].items()}
    return with_blocks(state, [*found, *[zeros] * (blocks - len(found))])
