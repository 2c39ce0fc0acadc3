"""Provenance says what is known, and in words what is not."""

import os
import subprocess
from datetime import timedelta

import pytest
import yaml

from symlab import __version__
from symlab.config import parse_config
from symlab.report import provenance

CONFIG = """
results: results
datasets:
  digits: {source: digits}
studies:
  small:
    dataset: digits
    network: {name: mlp, widths: [8]}
    recipe: {epochs: 1}
    seeds: 4
    seeds_per_job: 2
    variants:
      standard: {scheme: {name: standard}}
"""
PROJECT = parse_config(yaml.safe_load(CONFIG))
HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def benchmark(folder, path, seconds, memory="100.5", ended=1_000_000):
    file = folder / f"{path}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{HEADER}{seconds}\t0:00:01\t{memory}\t0\t0\t0\t0\t0\t0\t0\n")
    os.utime(file, (ended, ended))


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_versions_name_symlab_and_what_computes():
    versions = provenance.versions()
    assert versions["symlab"] == __version__ and versions["numpy"].startswith("2")
    assert {"Python", "torch", "scipy", "pandas", "snakemake"} <= set(versions)


def test_a_package_that_is_not_there_is_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("no-such-package",))
    assert provenance.versions()["no-such-package"] == "not installed"


def test_a_clean_checkout_and_one_with_changes(tmp_path):
    git(tmp_path, "init", "--quiet")
    assert provenance.commit(tmp_path) == "Not known: the workflow's Git repository has no commit yet."
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "a")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == f"{head}; no file differs from it."
    (tmp_path / "a.txt").write_text("b")
    assert provenance.commit(tmp_path) == f"{head}, and 1 changed or new file: a.txt."
    for name in "bcdefg":
        (tmp_path / name).write_text(name)
    assert provenance.commit(tmp_path) == f"{head}, and 7 changed or new files: a.txt, b, c, d, e and others."


def test_a_folder_within_a_foreign_repository_is_no_checkout(tmp_path):
    git(tmp_path, "init", "--quiet")
    inner = tmp_path / "inner"
    inner.mkdir()
    for folder in (inner, tmp_path / "nowhere"):
        assert provenance.commit(folder).startswith("Not known: the workflow's folder is no Git checkout")


def test_without_git_a_sentence_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.commit(tmp_path) == "Not known: Git is not installed here."


def test_the_machine_has_neither_name_nor_folder():
    machine = provenance.machine()
    assert list(machine) == ["Processor", "Cores", "Memory", "GPU", "System"] and all(machine.values())
    text = " ".join(machine.values())
    assert os.uname().nodename not in text.split() and os.path.expanduser("~") not in text.split()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'NVIDIA H200, 143771 MiB'\necho 'NVIDIA H200, 143771 MiB'", "2 x NVIDIA H200, 143771 MiB"),
        ("echo 'no driver' >&2\nexit 9", "none that answers"),
    ],
)
def test_gpus_are_named_and_counted(tmp_path, monkeypatch, script, said):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert provenance.machine()["GPU"] == said


def test_times_are_summed_by_rule_and_leave_out_what_the_config_no_longer_asks_for(tmp_path):
    benchmark(tmp_path, "train/small/standard/0", 10, ended=1_000_010)
    benchmark(tmp_path, "train/small/standard/1", 30, "250", ended=1_000_090)
    benchmark(tmp_path, "data/digits", 0.5, "NA", ended=999_999)
    benchmark(tmp_path, "claims", 2, "-", ended=1_000_100)
    for stale in ("train/small/standard/2", "train/small/gone/0", "train/gone/standard/0", "data/gone", "report"):
        benchmark(tmp_path, stale, 1e6)
    times = provenance.times(tmp_path, PROJECT)
    assert [(rule.rule, rule.jobs, rule.total_s, rule.longest_s, rule.memory_mb) for rule in times.rules] == [
        ("train", 2, 40, 30, 250),
        ("claims", 1, 2, 2, None),
        ("data", 1, 0.5, 0.5, None),
    ]
    assert times.jobs == 4 and times.total_s == 42.5
    assert times.ended - times.started == timedelta(seconds=1_000_100 - 999_998.5)


def test_no_benchmarks_no_times(tmp_path):
    assert provenance.times(tmp_path / "benchmarks", PROJECT) is None
