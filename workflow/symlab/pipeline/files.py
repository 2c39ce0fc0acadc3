"""Where the files of a run are, below its results folder."""

from pathlib import Path


def dataset(results: str, name: str) -> str:
    """A prepared data set."""
    return f"{results}/data/{name}.safetensors"


def part(results: str, study: str, variant: str, output: str, block: str | int) -> str:
    """What a measure gives for one block of a variant's seeds."""
    kind = Path(output)
    return f"{results}/{study}/{variant}/{kind.stem}/{block}{kind.suffix}"


def symmetries(results: str, study: str, shape: str) -> str:
    """The permutation symmetries of a study's networks of one shape."""
    return f"{results}/{study}/symmetries/{shape}.json"


def table(results: str, study: str, name: str) -> str:
    """A table of a study."""
    return f"{results}/{study}/tables/{name}"


def experiment(results: str, study: str, output: str) -> str:
    """What an experiment gives: a table of the study, or tensors."""
    return f"{results}/{study}/{'experiments' if output.endswith('.safetensors') else 'tables'}/{output}"


def figure(results: str, study: str, figure_id: str, suffix: str = ".svg") -> str:
    """A figure of a study."""
    return f"{results}/{study}/figures/{figure_id}{suffix}"


def points(results: str, study: str, key: str) -> str:
    """Where an experiment keeps its points; no output, so that those that are there stay when others are added."""
    return f"{results}/{study}/points/{key}"


def chunk(results: str, study: str, key: str, name: str) -> str:
    """Says that a job has computed its share of an experiment's points, which are beside it."""
    return f"{points(results, study, key)}/{name}.chunk"


def checkpoints(results: str, *names: str | int) -> str:
    """Where a job keeps what it has done so far; no output, for Snakemake removes those of a job that was killed."""
    return "/".join([results, "checkpoints", *map(str, names)])
