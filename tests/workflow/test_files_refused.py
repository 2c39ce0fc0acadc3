"""What lies under an output's name but is not what symlab wrote there is refused with a sentence; nothing is lost."""

import json
import shutil
import subprocess
import time

import pytest

from symlab.records import record_path

# A file of each kind, and an output that is made from it.
FILES = {
    "dataset": ("data/gmm_k2.safetensors", "gmm/w_sigma_F1_k2/models/0.safetensors"),
    "models": ("gmm/w_sigma_F1_k2/models/0.safetensors", "gmm/w_sigma_F1_k2/curves/0.csv"),
    "part of a table": ("gmm/w_sigma_F1_k2/curves/0.csv", "gmm/tables/curves.csv"),
    "table": ("digits/tables/matching.csv", "digits/figures/figure_3a.png"),
    "large table": ("gmm/tables/swap_costs.parquet", "gmm/figures/figure_5.png"),
}
NOT_WRITTEN = "is not what symlab wrote there: it was cut, altered or replaced. Delete"


def results(name):
    return f"results/smoke/{name}"


def flipped(content):
    content = bytearray(content)
    content[len(content) // 2] ^= 1
    return bytes(content)


def truncated(content):
    """Cut at the end of a line where there are lines, so that what is left is a sound table."""
    half = content[: len(content) // 2]
    return half[: half.rindex(b"\n") + 1] if b"\n" in half and content.isascii() else half


def refused(project, target, *arguments):
    """The last lines on the terminal of a run that has to fail without writing ``target``."""
    path = project.folder / target
    before = path.stat().st_mtime_ns if path.exists() else None
    result = project.snakemake(target, "--force", *arguments)
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert "Traceback" not in output, output
    assert not path.exists() or path.stat().st_mtime_ns == before
    return output.split("job failed:")[1]


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_refused_and_rebuilt_as_told(finished, finished_run, kind):
    name, target = map(results, FILES[kind])
    path = finished.folder / name
    content = path.read_bytes()
    for damage in (flipped, truncated):
        path.write_bytes(damage(content))
        last = refused(finished, target)
        assert f"{name} {NOT_WRITTEN} {name} and give the same command again" in last
    path.unlink()
    result = finished.snakemake(target)
    assert result.returncode == 0, result.stderr
    finished.assert_same_results(finished_run)


def replace(project, name, other, with_record):
    for path in (name, other):
        assert (project.folder / path).exists()
    shutil.copy(project.folder / other, project.folder / name)
    if with_record:
        shutil.copy(record_path(project.folder / other), record_path(project.folder / name))


FOREIGN = {
    "models of another sigma_F": ("w_sigma_F0/models/0.safetensors", "w_sigma_F1/models/0.safetensors"),
    "curves of other networks": ("w_sigma_F0/curves/0.csv", "w_sigma_F1/curves/0.csv"),
    "a table of other measurements": ("tables/matching.csv", "tables/barriers.csv"),
}
MADE_FROM_IT = dict(
    zip(FOREIGN, ("w_sigma_F0/curves/0.csv", "tables/curves.csv", "figures/figure_3a.png"), strict=True)
)


@pytest.mark.parametrize("what", FOREIGN)
def test_a_file_of_another_config_under_the_right_name_is_refused(finished, what):
    name, other, target = (results(f"digits/{path}") for path in (*FOREIGN[what], MADE_FROM_IT[what]))
    replace(finished, name, other, with_record=False)
    assert f"{name} {NOT_WRITTEN}" in refused(finished, target)
    replace(finished, name, other, with_record=True)
    assert f"{name} was made with other settings or data than this config's. Delete" in refused(finished, target)


def test_networks_of_a_run_without_its_history_are_checked_against_the_config(finished, fresh):
    """Snakemake takes files that it has no record of as they are; symlab does not."""
    models = results("digits/standard/models/0.safetensors")
    for name in (models, results("data/digits.safetensors"), results("digits/standard/history/0.csv")):
        for path in (fresh.folder / name, record_path(fresh.folder / name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(finished.folder / path.relative_to(fresh.folder), path)
    fresh.edit_config(lambda config: config["studies"]["digits"]["recipe"].update(epochs=5))
    target = results("digits/standard/moments/0.safetensors")
    result = fresh.snakemake(target)
    assert result.returncode != 0 and not (fresh.folder / target).exists()
    assert f"{models} was made with other settings or data than this config's" in result.stdout + result.stderr
    fresh.edit_config(lambda config: config["studies"]["digits"]["recipe"].update(epochs=4))
    assert fresh.snakemake(target).returncode == 0


def test_a_file_of_another_version_is_refused_if_its_code_has_changed(finished):
    name, target = results("digits/tables/matching.csv"), results("digits/figures/figure_3a.png")
    path = record_path(finished.folder / name)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"symlab": "0.0.1"}))
    assert finished.snakemake(target, "--force").returncode == 0
    record["origin"]["code"] = "0" * 16
    path.write_text(json.dumps(record | {"symlab": "0.0.1"}))
    assert f"{name} was made by symlab 0.0.1, and how it is made has changed since" in refused(finished, target)


@pytest.mark.parametrize("content", [None, "not json"])
def test_a_file_without_a_sound_record_is_refused(finished, content):
    name, target = results("digits/tables/matching.csv"), results("digits/figures/figure_3a.png")
    path = record_path(finished.folder / name)
    path.unlink() if content is None else path.write_text(content)
    assert f"{name} comes from elsewhere or from an interrupted job: .matching.csv.json beside it" in refused(
        finished, target
    )


def wait_for(lock):
    deadline = time.monotonic() + 60
    while not (lock.exists() and lock.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_two_runs_in_one_clone(fresh):
    process = fresh.start("all")
    try:
        wait_for(fresh.folder / "results/smoke/.lock")
        second = fresh.snakemake("all")
        assert second.returncode != 0
        assert f"results/smoke is being written by another run (process {process.pid} on " in second.stderr
        assert process.poll() is None, "the first run was disturbed"
    finally:
        process.kill()
        process.wait(timeout=60)
    # What is left of a run that was killed keeps nobody out.
    assert fresh.snakemake("results/smoke/data/digits.safetensors").returncode == 0


def test_two_clones_that_write_to_one_folder(clone, tmp_path):
    clones = [clone(tmp_path / name) for name in ("first", "second") if not (tmp_path / name).mkdir()]
    for project in clones:
        project.edit_config(lambda config: config.update(results=str(tmp_path / "shared")))
    target = str(tmp_path / "shared/digits/tables/history.csv")
    first = clones[0].start(target)
    try:
        wait_for(tmp_path / "shared/.lock")
        second = clones[1].snakemake(target)
        assert second.returncode != 0
        assert f"{tmp_path}/shared is being written by another run (process {first.pid} on " in second.stderr
        assert first.wait(timeout=120) == 0
    finally:
        first.kill()
    assert clones[1].snakemake(target, "--touch").returncode == 0


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
    fresh.edit_config(lambda config: config.update(results=str(folder / "results")))
    target = str(folder / "results/gmm/tables/swap_costs.parquet")
    result = fresh.snakemake(target)
    output = result.stdout + result.stderr
    assert result.returncode != 0 and "Traceback" not in output
    last = output.split("failed:")[-1]
    assert "cannot be written" in last and "No space left on device" in last and "finished is kept" in last
    kept = sorted(folder.glob("results/data/*.safetensors"))
    assert not list(folder.glob("results/**/*.part*"))
    remount("ro,size=1m")
    result = fresh.snakemake(target)
    assert result.returncode != 0 and "Traceback" not in result.stderr
    assert f"{folder}/results cannot be written: Read-only file system" in result.stderr
    remount("rw,size=60m")
    times = {path: path.stat().st_mtime_ns for path in kept}
    result = fresh.snakemake(target)
    assert result.returncode == 0, result.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    from symlab.artifacts import read_table

    here, there = map(read_table, (target, finished_run.folder / results("gmm/tables/swap_costs.parquet")))
    assert here.equals(there)
