"""Mistakes end in a sentence and a non-zero status; an interrupted run, taken up again, gives the same results."""

import gzip
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from symlab.artifacts import read_header, read_table


def refused(project, *arguments, data_dir=None):
    result = project.snakemake(*(arguments or ("all",)), data_dir=data_dir)
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert "Traceback" not in output, output
    return output


def test_a_misspelt_key_starts_nothing(fresh):
    fresh.edit_config(lambda config: config["studies"]["digits"]["recipe"].update(epoch=3))
    output = refused(fresh)
    assert "Config: unknown key 'epoch' at studies.digits.recipe; known keys are" in output
    assert not (fresh.folder / "results").exists()


def test_an_unknown_figure_is_named(fresh):
    fresh.edit_config(lambda config: config["studies"]["digits"].update(figures=["99"]))
    assert "studies.digits.figures names '99'" in refused(fresh)


def test_a_figure_without_its_analysis_names_the_key(fresh):
    fresh.edit_config(lambda config: config["studies"]["digits"].update(identification=None, figures=["12"]))
    assert "needs studies.digits.identification" in refused(fresh)


def test_a_network_that_diverges_is_named_and_leaves_no_file(fresh):
    def diverge(config):
        config["studies"]["digits"]["recipe"].update(optimizer="sgd", lr=1e30)
        config["studies"]["digits"]["network"].update(norm="none")

    fresh.edit_config(diverge)
    output = refused(fresh, "results/smoke/digits/standard/models/0.safetensors")
    assert "Training diverged: study digits, variant standard, mask seed 0, seed 0 has a loss" in output
    assert not fresh.results("digits/standard/models/*") and not fresh.results("digits/standard/history/*")


MNIST_DATA = "results/smoke/data/mnist.safetensors"


def use_mnist(config):
    config["datasets"]["mnist"] = {"source": "mnist"}


def test_a_data_folder_that_does_not_exist_is_named(fresh):
    fresh.edit_config(use_mnist)
    output = refused(fresh, MNIST_DATA, data_dir=fresh.folder / "nowhere")
    assert "nowhere' named by SYMLAB_DATA does not exist" in output


def test_a_data_file_with_another_content_is_refused(fresh):
    fresh.edit_config(use_mnist)
    folder = fresh.folder / "data" / "mnist"
    folder.mkdir(parents=True)
    header = (2051).to_bytes(4, "big") + (60_000).to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
        file.write(header + bytes(60_000 * 784))
    output = refused(fresh, MNIST_DATA, data_dir=fresh.folder / "data")
    assert "train-images-idx3-ubyte.gz" in output and "SHA-256" in output
    assert not fresh.results("data/mnist*")


def test_real_mnist_is_read_where_it_exists(fresh):
    folder = Path(os.environ.get("SYMLAB_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "mnist").is_dir():
        pytest.skip("needs the four MNIST files in SYMLAB_DATA/mnist or ../shared/data/mnist")
    fresh.edit_config(use_mnist)
    result = fresh.snakemake(MNIST_DATA, data_dir=folder)
    assert result.returncode == 0, result.stderr
    header = read_header(fresh.folder / MNIST_DATA, "dataset")
    assert header["sizes"] == {"train": 56_000, "val": 7_000, "test": 7_000}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_run_ends_with_the_same_results(fresh, finished_run, how):
    targets = ("results/smoke/gmm/tables/barriers.csv", "results/smoke/gmm/tables/swap_costs.parquet")
    process = subprocess.Popen(
        fresh.command(*targets),
        cwd=fresh.folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not fresh.results("gmm/*/models/*.safetensors") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fresh.results("gmm/*/models/*.safetensors"), "no training job finished in two minutes"
    os.killpg(process.pid, how)
    process.wait(timeout=60)
    assert not fresh.results("gmm/tables/barriers.csv")
    result = fresh.snakemake(*targets)
    assert result.returncode == 0, result.stderr
    for target in targets:
        assert read_table(fresh.folder / target).equals(read_table(finished_run.folder / target))
    for path in finished_run.results("gmm/*/models/*.safetensors"):
        same = fresh.folder / path.relative_to(finished_run.folder)
        assert read_header(same, "models")["content_sha256"] == read_header(path, "models")["content_sha256"]
