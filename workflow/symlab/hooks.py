"""What Snakemake's own process does for symlab: hold the results folder, and say at the end what failed."""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from symlab.artifacts import cannot_write
from symlab.errors import UserError

# How a job tells a mistake, and training that it was stopped with a checkpoint; how SLURM tells why it killed a job.
SENTENCE = re.compile(r"(?:\d\d:\d\d:\d\d )?((?:Error: |Training was stopped).*)")
SLURM = re.compile(r"slurmstepd.*?error: (.*)")


@dataclass
class Failure:
    """A job that failed: its name, its logs (symlab's first, a cluster's after it), and how often it was tried."""

    name: str
    logs: list[str]
    tries: int


class Failures(logging.Handler):
    """Collects the failed jobs of a run from Snakemake's log messages; a job that succeeds later is taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[int, str] = {}
        self.of_cluster: dict[int, list[str]] = {}
        self.failed: dict[int, Failure] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of jobs that start, fail and finish."""
        event = getattr(record, "event", None)
        if event == "job_info":
            self.names[record.jobid] = record.rule_msg or f"rule {record.rule_name}"  # type: ignore[attr-defined]
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


def _why(logs: list[str]) -> str:
    """The last sentence in a job's logs, or what is known of a job that said nothing."""
    texts = [Path(log).read_text(errors="replace").strip() for log in logs if Path(log).is_file()]
    for text in texts:
        for line in reversed(text.splitlines()):
            if found := SENTENCE.fullmatch(line):
                return found[1]
            if line.startswith("Traceback"):
                return f"A fault of the program: {text.splitlines()[-1]}"
    for text in texts:
        if killed := SLURM.findall(text):
            return f"The cluster ended it: {killed[-1]}"
    if not texts:
        return "It did not run: it was ended before it began, or another job of its group failed."
    last = texts[0].splitlines()[-1] if texts[0] else "nothing"
    return f"It ended without a sentence, killed from outside (memory, time, a signal); its log ends with: {last}"


def hold_results(results: str) -> None:
    """Make sure that the results folder can be written, and that no other run, of whatever clone, writes to it.

    The folder is held until this process ends, however it ends.

    Raises:
        UserError: another run holds the folder, or it cannot be written.
    """
    path = Path(results, ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
        probe = path.with_name(f".probe.{os.getpid()}")
        probe.write_text("x")
        probe.unlink()
    except OSError as error:
        raise cannot_write(results, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise UserError(
            f"{results} is being written by another run ({file.read().strip()}). Wait until it ends, or give this one "
            "a folder of its own (results: in the config)."
        ) from None
    except OSError:
        # A file system without locks: jobs say so in their logs, and Snakemake's own lock still guards this clone.
        return
    file.seek(0)
    file.truncate()
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    _held.append(file)


# Files whose locks last as long as the process.
_held: list[object] = []
