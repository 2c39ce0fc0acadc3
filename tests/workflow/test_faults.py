"""Faults that a run meets end in a sentence and a non-zero status; what is finished is kept."""

import os
import subprocess
from pathlib import Path

import pytest

from symlab.artifacts import read_header

pytestmark = pytest.mark.slow

MNIST = "results/tiny/data/mnist.safetensors"


def use_mnist(config):
    config["datasets"]["mnist"] = {"source": "mnist"}


def test_real_mnist_is_read_where_it_exists(fresh):
    folder = Path(os.environ.get("SYMLAB_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "mnist").is_dir():
        pytest.skip("needs the four MNIST files in SYMLAB_DATA/mnist or ../shared/data/mnist")
    fresh.edit_config(use_mnist)
    fresh.run(MNIST, SYMLAB_DATA=str(folder))
    header = read_header(fresh.folder / MNIST, "dataset")
    assert header["sizes"] == {"train": 56_000, "val": 7_000, "test": 7_000}


def test_a_network_that_diverges_is_named_and_leaves_no_file(fresh):
    def diverge(config):
        config["studies"]["digits"]["recipe"].update(optimizer="sgd", lr=1e30)
        config["studies"]["digits"]["network"].update(norm="none")

    fresh.edit_config(diverge)
    said = fresh.refuse("results/tiny/digits/w_sigma_F0/models/0.safetensors")
    assert "Training diverged: study digits, variant w_sigma_F0, mask seed 0, seed 0 has a loss" in said
    assert not fresh.find("digits/w_sigma_F0/models/*") and not fresh.find("digits/w_sigma_F0/history/*")


DAMAGED = {
    "data/digits.safetensors": "digits/w_sigma_F1/history/0.csv",
    "digits/w_sigma_F1/models/0.safetensors": "digits/w_sigma_F1/curves/0.csv",
    "digits/w_sigma_F1/permutations/0.safetensors": "digits/w_sigma_F1/curves/0.csv",
    "digits/w_sigma_F1/swap_costs/0.parquet": "digits/tables/swap_costs.parquet",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_artifact_is_refused_by_name_and_made_again_as_told(finished, finished_run, name):
    path, target = finished.results / name, f"results/tiny/{DAMAGED[name]}"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    said = finished.refuse(target, "--force")
    assert f"results/tiny/{name}" in said and f"Delete results/tiny/{name} and give the same command again." in said
    path.unlink()
    finished.run(target, "--force")
    finished.assert_same_results(finished_run)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte, and a way to remount it."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)

    mounted = mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    if mounted.returncode != 0:
        pytest.skip(f"needs a file system of its own, and may not mount one: {mounted.stderr.strip()}")
    yield folder, lambda options: mount("-o", f"remount,{options}")
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_and_a_read_only_one(fresh, small_disk, finished_run):
    folder, remount = small_disk
    fresh.edit_config(lambda config: config.update(results=str(folder / "tiny")))
    target = folder / "tiny/digits/tables/curves.csv"
    said = fresh.refuse(str(target))
    assert "No space left on device" in said and "finished is kept" in said
    assert not list(folder.glob("tiny/**/*.part*"))
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("tiny/data/*.safetensors")}
    remount("ro,size=1m")
    result = fresh.snakemake(str(target))
    assert result.returncode != 0 and "Read-only file system" in result.stdout + result.stderr
    remount("rw,size=60m")
    fresh.run(str(target))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert target.read_bytes() == (finished_run.results / "digits/tables/curves.csv").read_bytes()
