"""What a start of Snakemake, of a job or of the command line does not import, because each would pay for it."""

import os
import subprocess
import sys
from pathlib import Path

from symlab.papers import PAPERS

WORKFLOW = Path(__file__).parents[2] / "workflow"
LIBRARIES = {"torch", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "sklearn", "pooch", "PIL", "pyarrow"}
TABLES = {"numpy", "pandas", "pyarrow"}
# The formulas of collapse import scipy at once.
FIGURES = ", ".join(
    dict.fromkeys(figure.module for paper in PAPERS if paper.prefix != "collapse" for figure in paper.figures)
)
ROOM = "symlab.papers"
# In the order in which one process runs them, each with the libraries that it may have imported by then.
STAGES = {
    "import symlab": set(),
    "import symlab.device, symlab.pipeline.config, symlab.pipeline.digest, symlab.pipeline.files, symlab.data": set(),
    "import symlab.artifacts": {"numpy"},
    "import symlab.connectivity.barrier": TABLES,
    f"import {ROOM}.neuron_identifiability.tables": TABLES,
    f"import symlab.plotting.log_axes, symlab.plotting.units, {FIGURES}": TABLES,
    "from symlab.plotting.style import Style, apply_style, palette, panels; "
    "apply_style(Style()).__enter__(); palette(Style()); panels(1, 1, 2, 2)": TABLES | {"matplotlib", "PIL"},
    "import symlab.alignment.moments, symlab.symmetries.trace": LIBRARIES,
}
# Of torch's own parts, its exporter.
EXPORTER = {"torch._dynamo", "sympy"}


def test_each_start_imports_what_it_needs_alone():
    lines = ["import sys; before = set(sys.modules)"]
    for stage, allowed in STAGES.items():
        lines += [stage, f"print(*sorted({LIBRARIES - allowed | EXPORTER} & (set(sys.modules) - before)))"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONPATH": str(WORKFLOW)}
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=kept, capture_output=True, text=True, check=True)
    imported = dict(zip(STAGES, ran.stdout.split("\n"), strict=False))
    assert not any(imported.values()), imported
