"""What Snakemake's own process does for symlab: hold the results folder, and say at the end what failed."""

from __future__ import annotations

import atexit
import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from symlab.artifacts import cannot_write
from symlab.claims.verdicts import VERDICTS, summary
from symlab.errors import UserError
from symlab.locks import Held, take

# How a job tells a mistake, and training that it was stopped with a checkpoint; how SLURM tells why it killed a job.
SENTENCE = re.compile(r"(?:\d\d:\d\d:\d\d )?((?:Error: |Training was stopped|The job was stopped).*)")
SLURM = re.compile(r"slurmstepd.*?error: (.*)")


@dataclass
class Failure:
    """A job that failed: its name, its logs (symlab's first, a cluster's after it), and how often it was tried."""

    name: str
    logs: list[str]
    tries: int


class Jobs(logging.Handler):
    """Follows the jobs of a run by Snakemake's log messages, and collects those that failed and did not succeed later.

    Args:
        finished: is called with the outputs of each job that has finished.
    """

    def __init__(self, finished: Callable[[list[str]], None]) -> None:
        super().__init__()
        self.finished = finished
        self.names: dict[int, str] = {}
        self.outputs: dict[int, list[str]] = {}
        self.of_cluster: dict[int, list[str]] = {}
        self.failed: dict[int, Failure] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of jobs that start, fail and finish."""
        event = getattr(record, "event", None)
        if event == "job_info":
            self.names[record.jobid] = record.rule_msg or f"rule {record.rule_name}"  # type: ignore[attr-defined]
            self.outputs[record.jobid] = [str(path) for path in record.output]  # type: ignore[attr-defined]
        elif event == "group_error":
            # Snakemake tells the errors of the group's jobs next, without the cluster's log of the group.
            for info in record.job_error_info:  # type: ignore[attr-defined]
                self.of_cluster[info["jobid"]] = [str(log) for log in record.aux_logs]  # type: ignore[attr-defined]
        elif event == "job_error":
            jobid = record.jobid  # type: ignore[attr-defined]
            name = self.names.get(jobid, f"rule {record.rule_name}")  # type: ignore[attr-defined]
            tries = self.failed[jobid].tries + 1 if jobid in self.failed else 1
            logs = [str(log) for log in record.log] + self.of_cluster.pop(jobid, [])  # type: ignore[attr-defined]
            self.failed[jobid] = Failure(name, logs, tries)
        elif event == "job_finished":
            self.failed.pop(record.job_id, None)  # type: ignore[attr-defined]
            self.finished(self.outputs.get(record.job_id, []))  # type: ignore[attr-defined]

    def summary(self) -> str:
        """Which jobs failed, the sentence of each, and where its log is."""
        lines = [f"{len(self.failed)} job{'s' if len(self.failed) > 1 else ''} failed:"]
        for failure in self.failed.values():
            tried = f" ({failure.tries} tries)" if failure.tries > 1 else ""
            lines += [f"  {failure.name}{tried}", f"    {_why(failure.logs)}", f"    log: {', '.join(failure.logs)}"]
        lines.append("What is finished is kept: mend the cause and give the same command again.")
        return "\n".join(lines)

    def tell_at_exit(self) -> None:
        """Print the summary after all that Snakemake has to say."""
        if self.failed:
            atexit.register(lambda: print(f"\n{self.summary()}", flush=True))


def outcome(results: str) -> str:
    """Where the report of a finished run is, and how many claims held, failed, agree or disagree."""
    with Path(results, "claims.csv").open(newline="") as file:
        counts = Counter(row["verdict"] for row in csv.DictReader(file))
    return f"{results}/report.html: {summary(counts, [verdict for verdict in VERDICTS if verdict in counts])}"


def _why(logs: list[str]) -> str:
    """The last sentence in a job's logs, or what is known of a job that said nothing."""
    texts = [text for text in map(_read, logs) if text is not None]
    for text in texts:
        for line in reversed(text.splitlines()):
            if found := SENTENCE.fullmatch(line):
                return found[1]
            if line.startswith("Traceback"):
                return f"A fault of the program: {text.splitlines()[-1]}"
    for text in texts:
        if killed := SLURM.findall(text):
            return f"The cluster ended it: {killed[-1]}"
    if not any(texts):
        return (
            "It did not run: it was refused or ended before it began (on a cluster: account, partition, limits), or "
            "another job of its group failed."
        )
    last = next(text for text in texts if text).splitlines()[-1]
    if last.endswith(" done"):
        return (
            "Its work was done, but Snakemake could not take it over (a full disk?) or another job of its group failed."
        )
    return f"It ended without a sentence, killed from outside (memory, time, a signal); its log ends with: {last}"


def _read(log: str) -> str | None:
    try:
        return Path(log).read_text(errors="replace").strip()
    except OSError:
        return None


def hold_results(results: str) -> None:
    """Make sure that the results folder can be written, and that no other run, of whatever clone, writes to it.

    The folder is held until this process ends, however it ends.

    Raises:
        UserError: another run holds the folder, or it cannot be written.
    """
    probe = Path(results, f".probe.{os.getpid()}")
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_text("x")
    except OSError as error:
        raise cannot_write(results, error) from None
    finally:
        with suppress(OSError):
            probe.unlink()
    try:
        _held.append(take(Path(results, ".lock")))
    except Held as holder:
        raise UserError(
            f"{results} is being written by another run ({holder}). Wait until it ends, or give this one a folder "
            "of its own (results: in the config)."
        ) from None


# Files whose locks last as long as the process.
_held: list[object] = []
