"""The jobs that Snakemake plans for a preset, told in lines: for the transcripts of test_golden.py."""

import gc
import json
import shutil
from pathlib import Path

from symlab.pipeline.docs import ROOT

# Of how many rules of a script the parameters are told.
WHOLE = 2
# Of what a list of files or a parameter says.
LONGEST = 300
NEEDED = ("mem_mb", "runtime", "gpu")
# Of the modules whose digests are a parameter some that a rule or its settings name.
NAMED = (
    "scripts/",
    "networks/",
    "schemes/hadamard",
    "data/digits",
    "data/gmm",
    "identifiability-",
    "papers/permutation_invariance/fig_0",
)


def jobs(folder, patched):
    """Of each rule the first job, and whose others are."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    patched.chdir(folder)
    shutil.copy(ROOT / "workflow/presets/smoke.yaml", folder)
    before = gc.get_threshold()
    changed = {"points_per_job": 2, "device": "cuda", "style": {"dpi": 90}, "results": "r"}
    memory = {"mirror_symmetry": {"memory": {}}, "stand_in": "small networks"}
    changed["studies"] = {"memory": memory}
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        planned = api.workflow(
            resource_settings=ResourceSettings(cores=2),
            config_settings=ConfigSettings(configfiles=[Path("smoke.yaml")], config=changed),
            snakefile=ROOT / "Snakefile",
            workdir=folder,
        )
        workflow = planned.dag(DAGSettings(targets={"all"})).workflow_api._workflow
        workflow._prepare_dag(forceall=True, ignore_incomplete=True, lock_warn_only=True)
        workflow._build_dag()
        rules, scripts = {}, []
        for job in sorted(workflow.dag.jobs, key=lambda job: (job.rule.name, *job.wildcards, *job.output)):
            rules.setdefault(job.rule.name, []).append(job)
        for name, (first, *others) in rules.items():
            yield f"$ {name} {' '.join(first.wildcards)}"
            scripts.append(first.rule.script)
            yield from _told(first, scripts.count(first.rule.script) <= WHOLE)
            if others:
                yield f"others: {', '.join(' '.join(job.wildcards) for job in others)}"
    gc.set_threshold(*before)


def _told(job, whole):
    rule = job.rule
    local = rule.name in rule.workflow._localrules
    yield f"{job.message} | group {rule._group} | {job.threads} threads, priority {rule.priority}, local {local}"
    environment = Path(job.conda_env_spec.file.path).name if rule.conda_env else None
    yield f"{Path(rule.script).name if rule.script else None} in {environment}, {job.log}, {job.benchmark}"
    yield f"in {_by_folder(job.input)}"
    yield f"out {_by_folder(job.output)}".rstrip()
    if not local:
        once, twice = (dict(rule.expand_resources(job.wildcards, job.input, n).items()) for n in (1, 2))
        yield "needs " + ", ".join(f"{name} {once[name]}, then {twice[name]}" for name in NEEDED if name in once)
    for name, value in job.params.items():
        if not whole and name != "code":
            continue
        yield f"  {name}: {_plain(name, value)}"


def _by_folder(paths):
    """Files after the name that a job has for them and their folder."""
    names = {str(path): name for name in paths.keys() for path in _listed(paths[name])}  # noqa: SIM118
    found = {}
    for path in map(str, paths):
        folder, _, file = path.rpartition("/")
        found.setdefault(f"{names.get(path, '')} {folder}".strip(), []).append(file)
    return "; ".join(f"{folder}: {' '.join(files)}" for folder, files in found.items())[:LONGEST]


def _listed(paths):
    return [paths] if isinstance(paths, str) else paths


def _plain(name, value):
    """A parameter; of digests of code, and of what a config says, the names alone."""
    if isinstance(value, dict) and name in ("code", "tables") and all(isinstance(each, str) for each in value.values()):
        return [each for each in value if each.startswith(NAMED)]
    if name in ("pages", "kept", "listed"):
        return f"{len(value)} letters"
    return [*value] if name == "config" else json.dumps(value, default=str)[: None if name == "studies" else LONGEST]
