"""Networks of 10^9 random weights, planted permutations of them, and ``symlab align`` with a clock on its stages.

``python tests/benchmarks/large_models.py plant unet FOLDER`` (``draw``: two unrelated networks), then ``... align unet
FOLDER``. PYTHONPATH names the folders of symlab and of this file; SYMLAB_SIZE divides the widths (4: a quarter).
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

DIVIDED_BY = int(os.environ.get("SYMLAB_SIZE", "1"))
# Latents of Stable Diffusion are 64 pixels wide; the trial needs no more than what every block can halve.
PIXELS, TOKENS, SAMPLES = 16, 16, 2
# What a stage is: the first of these functions that is entered.
STAGES = {
    "symlab.cli.align:load_module": "building the module",
    "symlab.cli.align:read_weights": "reading",
    "symlab.cli.align:prepare": "checking names and values",
    "symlab.cli.align:_output": "calling the module",
    "symlab.cli.align:_check_state_alone_counts": "checking that the state alone counts",
    "symlab.cli.align:traced_symmetries": "tracing",
    "symlab.cli.align:record_pair_moments": "correlating activations",
    "symlab.cli.align:weight_matching": "matching weights",
    "symlab.cli.align:permute": "permuting",
    "symlab.cli.align:check_alignment": "checking the function",
    "symlab.cli.align:save_file": "writing",
    "symlab.cli.align:sha256": "hashing the files",
}
# Within the matching.
PARTS = {
    "symlab.alignment.weight_matching:_Similarities.of": "products",
    "symlab.alignment.weight_matching:match_all": "assignments",
    "symlab.alignment.weight_matching:permuted": "moving tensors",
    "symlab.alignment.weight_matching:_inner": "objective",
}


class Denoiser(nn.Module):
    """The UNet of Stable Diffusion 1.5 at one time of the diffusion and one text."""

    def __init__(self, seed: int):
        from diffusers import UNet2DConditionModel

        super().__init__()
        widths = [width // DIVIDED_BY for width in (320, 640, 1280, 1280)]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.network = UNet2DConditionModel(
                sample_size=64,
                block_out_channels=widths,
                norm_num_groups=32 if DIVIDED_BY == 1 else 8,
                cross_attention_dim=768 // DIVIDED_BY,
                attention_head_dim=8,
                layers_per_block=2,
            )
            torch.manual_seed(0)
            self.register_buffer("text", torch.randn(77, 768 // DIVIDED_BY), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x, 500, self.text.expand(len(x), -1, -1)).sample


def unet(seed: int = 0) -> nn.Module:
    return Denoiser(seed)


def llama(seed: int = 0) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32_000 // DIVIDED_BY,
        hidden_size=2048 // DIVIDED_BY,
        intermediate_size=5632 // DIVIDED_BY,
        num_hidden_layers=22 if DIVIDED_BY == 1 else 4,
        num_attention_heads=32 // DIVIDED_BY,
        num_key_value_heads=4,
        use_cache=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def latents() -> Tensor:
    return torch.randn(SAMPLES, 4, PIXELS, PIXELS, generator=torch.Generator().manual_seed(1))


def words() -> Tensor:
    return torch.randint(3, 100, (SAMPLES, TOKENS), generator=torch.Generator().manual_seed(1))


INPUTS = {"unet": latents, "llama": words}


def batches_unet() -> list[Tensor]:
    return [latents()]


def batches_llama() -> list[Tensor]:
    return [words()]


def random_network(name: str, seed: int) -> nn.Module:
    module: nn.Module = globals()[name](seed).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        # Norms begin constant, which tells no neurons apart.
        if parameter.dim() < 2:
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return module


def write(module: nn.Module, folder: Path) -> None:
    """In float16 and shards, as its library does."""
    library: Any = getattr(module, "network", module)
    library.half().save_pretrained(folder, max_shard_size="1GB")


def plant(name: str, folder: Path) -> None:
    """Write a network and a random renumbering of it."""
    from symlab.alignment.permute import permute
    from symlab.cli.trace import trace_quietly
    from symlab.symmetries.symmetry_spec import random_permutations

    module = random_network(name, 0)
    spec = trace_quietly(module, INPUTS[name]()).spec
    write(module, folder / "A")
    permutations = random_permutations(spec, np.random.default_rng(3))
    for key, tensor in permute(module.state_dict(), spec, permutations).items():
        module.state_dict()[key].copy_(tensor)
    write(module, folder / "B")
    count = sum(parameter.numel() for parameter in module.parameters())
    print(f"{name}: {count / 1e6:.0f} M parameters, {len(spec.groups)} groups, lost: {len(spec.unsupported)}")


def draw(name: str, folder: Path) -> None:
    """Write two networks of random weights that have nothing to do with each other: the longest descent."""
    write(random_network(name, 0), folder / "A")
    write(random_network(name, 1), folder / "B")


def align(name: str, folder: Path) -> None:
    """``symlab align`` with the time of each stage, and the process's peak memory after it, as lines of JSON."""
    from symlab.cli import main

    for wanted in (STAGES, PARTS):
        clock = Clock(printing=wanted is STAGES)
        for place, stage in wanted.items():
            module_name, _, path = place.partition(":")
            *classes, function = path.split(".")
            holder = reduce(getattr, classes, importlib.import_module(module_name))
            setattr(holder, function, clock.timed(getattr(holder, function), stage))
        if wanted is PARTS:
            parts = clock
    arguments = ["align", str(folder / "A"), str(folder / "B"), "--model", f"large_models:{name}"]
    arguments += ["--data", f"large_models:batches_{name}", "--method", "weight", "--out", str(folder / "aligned")]
    main([*arguments, "--overwrite", *sys.argv[4:]])
    for stage, (wall, cpu, calls) in parts.total.items():
        print(json.dumps({"part": stage, "wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "calls": calls}), flush=True)
    report("all", time.perf_counter() - START, time.process_time())


START = time.perf_counter()


def report(stage: str, wall: float, cpu: float) -> None:
    status = Path("/proc/self/status").read_text()
    anonymous, of_files = (int(status.split(f"{key}:")[1].split()[0]) / 2**20 for key in ("RssAnon", "RssFile"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = {"wall_s": wall, "cpu_s": cpu, "peak_GiB": peak, "anonymous_GiB": anonymous, "of_files_GiB": of_files}
    line = {"stage": stage, **{key: round(value, 2) for key, value in found.items()}, "load": os.getloadavg()[0]}
    print(json.dumps(line), flush=True)


class Clock:
    """Wall and CPU time by stage; a stage within another counts for the outer one."""

    def __init__(self, printing: bool):
        self.printing = printing
        self.inside = False
        self.total: dict[str, tuple[float, float, int]] = {}

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return function(*args, **kwargs)
            self.inside = True
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.inside = False
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                before = self.total.get(stage, (0.0, 0.0, 0))
                self.total[stage] = (before[0] + wall, before[1] + cpu, before[2] + 1)
                if self.printing:
                    report(stage, wall, cpu)

        return wrapped


if __name__ == "__main__":
    {"plant": plant, "draw": draw, "align": align}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
