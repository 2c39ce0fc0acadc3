"""Read or synthesise one data set and write it with its splits."""

from symlab.pipeline.job import run
from symlab.data import SOURCES, load
from symlab.data.dataset import save
from symlab.data.folder import resolve_data_dir
from symlab.settings import choose
from symlab.words import counted


def main(snakemake, report):
    source = choose(SOURCES, snakemake.params.spec, "source")
    dataset = load(source, resolve_data_dir(snakemake.config["data_dir"]))
    sizes = {name: len(getattr(dataset, f"y_{name}")) for name in ("train", "val", "test")}
    report(f"{snakemake.wildcards.dataset}: {counted(dataset.n_inputs, 'inputs')}, {dataset.task}, samples {sizes}")
    save(snakemake.output[0], dataset)


run(main, snakemake)
