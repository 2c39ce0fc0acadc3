"""A run of two papers that do not exist, small, with all that a run may have: for the transcripts of test_golden.py.

Its tables are numbers that go with another factor for each kept run, so that these judge the same claims otherwise.
"""

import contextlib
import io
import json
import math
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd

from symlab.artifacts import read_table, write_table, write_tensors
from symlab.errors import UserError
from symlab.pipeline import docs, drawing, ledger, provenance, rejudge, report, site, summary
from symlab.pipeline.docs import ROOT
from symlab.plotting.settings import Style
from symlab.plotting.style import panels
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import (
    Case,
    Claim,
    Measurement,
    above,
    at_least,
    at_most,
    below,
    between,
    exact_value,
    not_measured,
    share_of,
    value_of_all,
)

SVG = """<?xml version="1.0"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="216pt" height="108.4pt" viewBox="0 0 216 108.4">
<defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
<defs><path id="n1" d="M 0 1 L 2 3" transform="scale(0.015625)"/></defs>
<defs><clipPath id="n2"><rect x="1"/></clipPath></defs>
<g clip-path="url(#n2)"><use xlink:href="#n1"/></g></svg>
"""
STUDIES = {
    "small": {"figures": ["test-1", "test-2", "test-3", "test-thm4", "other-1"], "scale": "4 pairs, 60 epochs"},
    "wide": {"figures": ["test-1", "other-1"], "scale": "2 pairs", "stand_in": "digits, not MNIST"},
}
ABOUT = {"small": "MLPs of 32 on digits", "wide": ""}


def table(factor):
    """Of each scheme and layer values of four pairs."""
    rows = [
        {"scheme": scheme, "sigma_F": sigma, "layer": layer, "pair": pair, "mask_seed": 0}
        | {"x": factor * (0.5 + 0.3 * at_scheme) * layer * (1 + 0.02 * pair), "n": 20}
        for at_scheme, (scheme, sigma) in enumerate((("standard", math.nan), ("masked", 0.0), ("masked", 1.0)))
        for layer in range(1, 6)
        for pair in range(4)
    ]
    return pd.DataFrame(rows)


def _means(tables):
    rows = tables["a.csv"]
    name = lambda key: "standard" if key["scheme"] == "standard" else f"W, σ_F = {key['sigma_F']:g}"  # noqa: E731
    return cases(rows[rows["layer"] == 1], "x", ["scheme", "sigma_F"], "pair", name).means()


def _layers(tables):
    rows = tables["a.csv"]
    return cases(rows[rows["scheme"] == "standard"], "x", ["layer"], "pair", "layer {layer}").means()


def _first(tables):
    return float(tables["a.csv"]["x"].iloc[0])


def _many(tables):
    return [exact_value(_first(tables) * k, case=Case(f"k = {k}", k=k)) for k in range(3, 8)]


def _claim(name, found, bound, **fields):
    """Its texts have minus signs, powers and indices; what is measured is given, or a function of the tables."""
    told = name.rpartition("-")[2]
    texts = {"statement": f"{told} is small, |x_i| > -0.5", "quantity": f"mean of {told}", "owner": "paper"}
    texts |= {"origin": "paper", "reason": "the paper says `2e-05`.", "tables": ("a.csv",)}
    measure = found if callable(found) else lambda tables: found
    return Claim(id=name, bound=bound, measure=measure, **(texts | fields))


OURS = {"owner": "ours", "origin": "ours"}
CLAIMS = [
    _claim("test-1-mean", _means, at_most(1, "pp"), why="It is *masked*."),
    _claim(
        "test-1-each", _layers, below(2.3), owner="derived", origin="derived", also=("test-2",),
        why={"layer 5": "It is deep", "": "It is deep, and more."}, quantity="",
    ),
    _claim("test-1-nothing", [Measurement(math.nan, 3, detail="0 of 3 ended")], at_most(1), **OURS),
    _claim("test-2-factor", lambda tables: [Measurement(math.log10(_first(tables)), 4, error=0.01)], at_least(-0.5)),
    _claim("test-2a-share", lambda tables: [share_of(int(10 * _first(tables)), 20, unit="masks")], above(0.5),
           owner="ours", origin="pilot", also=("test-2",)),
    _claim("test-2-open", [Measurement(2e-5, 1200, 0.5, "W", "3 of 4", 1e-6, open="not after 10^3 steps")], at_most(1)),
    _claim("test-3-one", [Measurement(1234.5, 1, unit="networks"), not_measured("W, k = 9", "no n_9 < 3")], at_most(1)),
    _claim("test-3-lacks", [], at_most(1), tables=("a.csv", "ridge_swap_costs.parquet", "estimators.csv")),
    _claim("test-3-history", [], at_most(1), tables=("history.csv",), owner="derived"),
    _claim("test-3-phrase", ["there is one width", "there is one depth", "there is one width",
                             not_measured("k = 2", "ends early")], at_most(1), **OURS),
    _claim("test-thm4-proof", [exact_value(0.25, case="a"), exact_value(0.5, case="b", detail="by hand")],
           between(-0.5, 1), kind="theorem"),
    _claim("test-thm4-broken", lambda tables: [exact_value(4 * _first(tables))], at_most(1), kind="theorem",
           owner="derived"),
    _claim("test-thm4-check", [exact_value(0.0)], at_most(1e-9), kind="check", owner="ours"),
    _claim("test-5-absent", [exact_value(1.0)], at_most(1)),
]  # fmt: skip
OTHERS = [
    _claim("other-1-worst", lambda tables: [value_of_all(_first(tables), 4, unit="seeds")], below(0.75), quantity=""),
    _claim("other-1-many", _many, at_most(0.5), owner="ours", origin="pilot"),
]  # fmt: skip
FOUND = (
    Sentence("Means are {a} and {b:~}, {c:%} of it.", {
        "a": at("test-1-mean", scheme="standard"), "b": at("test-1-mean", scheme="masked"),
        "c": ("test-1-mean", "standard")}),
    Sentence("Layers have {x:~}.", {"x": at("test-1-each")}, "Layers have up to {x:~}, which is too much."),
    Sentence("A share of {x:~%} and {y:^2}.", {"x": at("test-2a-share"), "y": at("test-2-factor")}),
    Sentence("All k: {x:~}.", {"x": at("other-1-many")}),
    Sentence("Nobody tells {x}.", {"x": at("test-3-lacks")}),
)  # fmt: skip
HEADLINE = (
    Sentence("Means are **{x:~}** of σ_F.", {"x": ("test-1-mean", "standard")}),
    Sentence("They are {x:^} times as large.", {"x": at("test-2-factor")}),
    Sentence("The share is {x}", {"x": at("test-2a-share")}, "The share is only {x}."),
)


def draw(tables, style):
    figure, axes = panels(1, 2, 3, 1.5)
    for axis in axes.flat:
        axis.plot(tables["a.csv"]["layer"], tables["a.csv"]["x"])
    return figure


def refuse(tables, style):
    raise UserError("it needs two widths, so change `studies.s.widths`.")


def papers_of(make):
    seen = Sentence("One sees {x} at σ_F = -1.", {"x": ("test-1-mean", "standard")})
    drawings = {
        "test-1": Drawing("Means of σ_F", "Of study `{study}`: *σ_F* <b> & -1.\n\nMore.", draw, seen, "It is small."),
        "test-2": Drawing("Layers", "Of `{study}`.", draw, "One sees {factor} | more."),
        "test-3": Drawing("Widths", "Of `{study}`.", refuse),
        "test-thm4": Drawing("Proofs", "None.", draw),
        "test-5": Drawing("Absent", "None.", draw),
    }
    first = make(
        CLAIMS, ("1", "2", "3", "thm4", "5"), drawings=drawings, link="https://example.org/a", where="Some 2026",
        found=FOUND, headline=HEADLINE, terms=(("σ_F", "how large F is, x^(-2)"), ("pair", "two networks")),
        scale="eight pairs", subjects="MLPs", heading="Means are small", largest="large",
        thumbnail=("test-1", 1, "Blue: ones."), captions={"a.csv": "What `a` holds, by m^2."},
    )  # fmt: skip
    there = {"other-1": Drawing("Worst", "Of `{study}`.", draw, Sentence("Worst: {x}.", {"x": at("other-1-worst")}))}
    other = make(
        OTHERS, prefix="other", drawings=there, title="Other <title>", found=FOUND, thumbnail=("other-1", 9, "All."),
        headline=(Sentence("The worst is {x:~}.", {"x": at("other-1-worst")}),),
    )  # fmt: skip
    absent = make([_claim("absent-1-one", [exact_value(1.0)], at_most(1))], prefix="absent")
    return first, other, absent


def use(papers, folder, patched):
    """Put the papers in the place of those that there are, and the folder's runs in that of kept ones."""
    figures = {figure.id: figure for paper in papers for figure in paper.figures}
    of = {figure.id: paper for paper in papers for figure in paper.figures}
    for module in (docs, drawing, site):
        patched.setattr(module, "FIGURES", figures)
    for module in (docs, drawing):
        patched.setattr(module, "paper_of", of.__getitem__)
    for module in (docs, summary, rejudge):
        patched.setattr(module, "PAPERS", papers)
    for module in (docs, site):
        patched.setattr(module, "REFERENCE", folder / "results/reference")
    patched.setattr(ledger.evaluate_claims, "__defaults__", (papers,))
    patched.setattr(rejudge.rejudge, "__defaults__", (None, "", papers, False))
    patched.setattr(report.write_page, "__defaults__", (papers, folder, "this config", "today, on a desk"))
    patched.setattr("symlab.pipeline.job._end_with_snakemake", lambda: None)
    docs.kept_runs.cache_clear()


def script(name, **given):
    """What Snakemake does with a script of the workflow."""
    runpy.run_path(str(ROOT / f"workflow/scripts/{name}.py"), init_globals={"snakemake": SimpleNamespace(**given)})


class Output(list):
    """Paths, also by name."""

    def __init__(self, **named):
        super().__init__(named.values())
        vars(self).update(named)


def keep(folder, name, factor, studies, figures, **told):
    """A run that is kept in results/reference, with drawings of some figures."""
    run = folder / "results/reference" / name
    tables = {study: {"a.csv": table(factor)} for study in studies}
    write_table(run / "claims.csv", ledger.evaluate_claims(studies, tables))
    kept = {"date": "2026-01-02", "wall_time": "3 min (two cores)", "machine": "a desk | 2 cores", "stages": {}}
    kept |= {"command": "snakemake --configfile workflow/presets/mirror.yaml"} | told
    (run / "provenance.json").write_text(json.dumps(kept))
    for figure in figures:
        (run / f"{figure}.svg").write_text(SVG)


def make(folder, papers, patched):
    """The run in folder/results/made, and kept ones beside it."""
    use(papers, folder, patched)
    small = {"small": STUDIES["small"]}
    keep(
        folder,
        "demo",
        1.1,
        STUDIES,
        ["small-test-1", "wide-test-1", "small-other-1"],
        command="make demo",
        commit="abc",
    )
    keep(folder, "tiny", 1.7, {"first": STUDIES["wide"]} | small, ["test-2", "test-thm4"])
    keep(folder, "large", 2.5, {"whole": STUDIES["small"], "wide": STUDIES["wide"]}, ["wide-test-1"])
    (folder / "docs/papers").mkdir(parents=True)
    (folder / "docs/papers/test-paper.md").write_text("# Test")
    results, paths = folder / "results/made", {}
    for study in STUDIES:
        paths[study] = [f"{results}/{study}/tables/a.csv"]
        write_table(paths[study][0], table(1.0))
    write_table(results / "small/tables/b.parquet", pd.DataFrame({"x": range(1200)}))
    every = [path for of_study in paths.values() for path in of_study]
    ledger_file = results / "claims.csv"
    script(
        "claims", params=SimpleNamespace(studies=STUDIES, tables=paths), output=Output(ledger=str(ledger_file)),
        log=[f"{results}/logs/claims.log"],
    )  # fmt: skip
    drawn = {}
    for study, told in STUDIES.items():
        drawn[study] = svg = [f"{results}/{study}/figures/{name}.svg" for name in told["figures"]]
        params = SimpleNamespace(study=study, style=Style().spec(), code=dict.fromkeys(told["figures"], "code"))
        log = [f"{results}/logs/figures/{study}.log"]
        script("figures", input=paths[study], params=params, output=Output(svg=svg), log=log)
        for path in svg:
            Path(path).write_text(SVG)
    dataset = {"x": np.zeros(3)}
    header = {"provenance": {"source": "digits"}, "sizes": {"train": 1437, "val": 180, "test": 1180}}
    write_tensors(results / "data/digits.safetensors", dataset, "dataset", header)
    script(
        "report",
        input=SimpleNamespace(
            claims=str(ledger_file), figures=[path for each in drawn.values() for path in each],
            tables=[*every, f"{results}/small/tables/b.parquet"], data=[f"{results}/data/digits.safetensors"],
        ),
        params=SimpleNamespace(
            config={"studies": {"small": {"seeds": 4}}, "results": "made"}, run="made.yaml",
            studies={name: {"about": ABOUT[name], "scale": study["scale"]} for name, study in STUDIES.items()},
        ),
        output=Output(page=f"{results}/report.html", config=f"{results}/config.yaml"),
        log=[f"{results}/logs/report.log"],
    )  # fmt: skip
    return results


def again(folder, papers, patched):
    """What the kept demo is when it is judged again: without tables, with those of one study, and reworded."""
    run = folder / "results/reference/demo"
    write_table(folder / "tables/small/tables/a.parquet", table(0.5))
    before = read_table(run / "claims.csv")
    changed = before["quantity"].where(before["claim"] != "test-1-mean", "another sum")
    for more in ((), ("--tables", "tables", "--judged", "abc"), ("--reworded",)):
        write_table(run / "claims.csv", before.assign(quantity=changed))
        patched.setattr(sys, "argv", ["rejudge", str(run), *more])
        patched.chdir(folder)
        rejudge.main()
        yield more, read_table(run / "claims.csv")
    write_table(run / "claims.csv", before)


def docs_anew(folder, patched):
    """What the command that writes generated parts anew names, and such a page of the made-up runs before and after."""
    page = "above\n<!-- generated: owners -->\nold\n<!-- end of generated -->\nbelow\n"
    for path in (folder / "README.md", folder / "docs/a/page.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page)
    (folder / "docs/fresh.md").write_text("by hand\n")
    patched.setattr(docs, "ROOT", folder)
    patched.setattr(docs, "SCHEMA", folder / "schema.json")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        docs.main()
        docs.main()
    return [*said.getvalue().splitlines(), *(folder / "docs/a/page.md").read_text().splitlines()]


def on_site(folder, patched):
    """The kept figures that the site gets, by a stand-in for mkdocs, which is not here."""
    files = ModuleType("mkdocs.structure.files")
    files.File = SimpleNamespace(
        generated=lambda config, path, abs_src_path: (config, path, Path(abs_src_path).exists())
    )
    patched.setitem(sys.modules, files.__name__, files)
    patched.setattr(site, "ROOT", folder)
    return sorted(site.on_files([], "config"))


def machines(folder, patched):
    """What a page is said to be made on, where the system tells its processors and where it does not."""
    told = folder / "cpuinfo"
    told.write_text("processor : 0\nmodel name : A chip \nmodel name : another\n")
    with patched.context() as here:
        here.setattr(provenance, "Path", lambda path: told if path == "/proc/cpuinfo" else Path(path))
        here.setattr(provenance, "platform", SimpleNamespace(machine=lambda: "arch", system=lambda: "System"))
        here.setattr(provenance.os, "cpu_count", lambda: 3)
        known = provenance.machine()
        told.unlink()
        return known, provenance.machine()


def with_a_fault(folder, card, patched):
    """What a job of claims one of which raises writes."""
    given = {
        "params": SimpleNamespace(studies=STUDIES, tables={"small": [f"{folder}/results/made/small/tables/a.csv"]})
    }
    results = folder / "faulty"
    claims = [_claim(f"test-1-{name}", lambda tables: tables["b.csv"], at_most(1)) for name in ("one", "two")]
    patched.setattr(ledger.evaluate_claims, "__defaults__", ([card(claims)],))
    with contextlib.suppress(SystemExit):
        script("claims", output=Output(ledger=str(results / "claims.csv")), log=[f"{results}/claims.log"], **given)
    return sorted(results.glob("claims*"))
