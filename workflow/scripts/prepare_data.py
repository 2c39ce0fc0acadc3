"""Read or synthesise one data set and write it with its splits."""

from symlab.data import load, resolve_data_dir, save
from symlab.job import run


def main(snakemake, report):
    spec = snakemake.params.spec
    dataset = load(spec, resolve_data_dir(snakemake.config["data_dir"]))
    sizes = {name: len(getattr(dataset, f"y_{name}")) for name in ("train", "val", "test")}
    report(f"{snakemake.wildcards.dataset}: {dataset.n_inputs} inputs, {dataset.task}, samples {sizes}")
    save(snakemake.output.data, dataset)


run(main, snakemake)
