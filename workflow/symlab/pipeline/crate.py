"""The RO-Crate record of a kept run (https://w3id.org/ro/crate/1.1): what ran, when, on what, and its files."""

import json
from pathlib import Path
from typing import Any

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
FILE = "ro-crate-metadata.json"
KINDS = {
    ".csv": "text/csv",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
}


def crate_text(run: Path) -> str:
    """The record of a run that is kept in a folder, from its provenance.json and the names of its files."""
    kept = json.loads((run / "provenance.json").read_text())
    files = sorted(
        path.relative_to(run).as_posix() for path in run.rglob("*") if path.suffix in KINDS and path.name != FILE
    )
    workflow: dict[str, Any] = {
        "@id": "#workflow",
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": "symlab",
        "programmingLanguage": {"@id": "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"},
        "version": kept.get("commit", ""),
        "license": "https://spdx.org/licenses/MIT",
    }
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": kept["command"],
        "instrument": {"@id": "#workflow"},
        "endTime": kept["date"],
        "description": f"{kept['wall_time']}; {kept['machine']}",
        "result": [{"@id": name} for name in files],
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"symlab, kept run {run.name}",
        "description": f"Claims with their verdicts, figures and provenance of {kept['command']}.",
        "datePublished": kept["date"],
        "license": {"@id": "https://spdx.org/licenses/MIT"},
        "mainEntity": {"@id": "#workflow"},
        "mentions": {"@id": "#run"},
        "hasPart": [{"@id": name} for name in files],
    }
    descriptor = {
        "@id": FILE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    language = {
        "@id": workflow["programmingLanguage"]["@id"],
        "@type": "ComputerLanguage",
        "name": "Snakemake",
        "url": "https://snakemake.readthedocs.io",
    }
    listed = [{"@id": name, "@type": "File", "encodingFormat": KINDS[Path(name).suffix]} for name in files]
    graph = [descriptor, root, workflow, language, action, *listed]
    return json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False) + "\n"
