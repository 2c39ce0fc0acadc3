"""Benchmarks: ways to do the same work, symlab's first, taken in turn so that a busy machine slows all of them alike.

    python benchmarks/run.py [NAME ...] [--rounds 5] [--memory] [--threads 1]

prints for each way the median seconds of CPU and of wall clock, and the median over rounds of its CPU time over that of
the first way. ``--memory`` runs each way once, in a process of its own, and prints by how much its peak memory grew.
"""

import argparse
import importlib
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from threadpoolctl import threadpool_limits

Ways = dict[str, Callable[[], Any]]
FILES = ("training", "matching", "costs", "papers")
# Seconds of CPU: a round of all ways that takes longer needs no other that warms up, and is the only one.
LONG = 30


def benchmarks() -> dict[str, Callable[[], Ways]]:
    """Of each file the public functions that say that they give ways."""
    modules = [importlib.import_module(name) for name in FILES]
    functions = {name: each for module in modules for name, each in vars(module).items() if not name.startswith("_")}
    return {
        name: each for name, each in functions.items() if getattr(each, "__annotations__", {}).get("return") == "Ways"
    }


def compare(name: str, ways: Ways, rounds: int) -> None:
    """Print the times of each way: a round that warms up does not count, unless it is long."""
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds + 1):
        for way, work in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            taken[way].append((time.process_time() - cpu, time.perf_counter() - wall))
        if sum(times[0][0] for times in taken.values()) > LONG:
            break
    counted = {way: times[1:] or times for way, times in taken.items()}
    first = next(iter(counted.values()))
    for way, times in counted.items():
        cpu, wall = (median(column) for column in zip(*times, strict=True))
        ratio = median(own[0] / other[0] for own, other in zip(times, first, strict=True))
        print(f"{name}: {way}: CPU {cpu:.3f} s, wall {wall:.3f} s, {ratio:.2f} times the first", flush=True)


def peak_mb() -> float:
    """The process's highest memory so far; of Linux alone."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def measure_memory(name: str, way: str) -> None:
    """Print by how much a way raises the peak."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    work, before = benchmarks()[name]()[way], peak_mb()
    work()
    print(f"{name}: {way}: {peak_mb() - before:.0f} MB", flush=True)


def main() -> None:
    """Run the benchmarks that the command line names, or all."""
    known = benchmarks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"there is no {' nor '.join(sorted(unknown))}; known are {', '.join(known)}")
    torch.set_num_threads(arguments.threads)
    threadpool_limits(arguments.threads)
    for name in arguments.names or known:
        torch.manual_seed(0)
        if not arguments.memory:
            try:
                compare(name, known[name](), arguments.rounds)
            except ModuleNotFoundError as error:
                print(f"{name}: left out: {error}")
            continue
        for way in known[name]():
            process = multiprocessing.get_context("spawn").Process(target=measure_memory, args=(name, way))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
