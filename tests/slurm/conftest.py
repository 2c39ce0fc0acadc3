"""A real SLURM cluster of one node on this machine, and the project as its user submits it."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ETC = Path("/etc/slurm")
CONFIGURATION = ETC / "slurm.conf"
# Jobs and their steps read the configuration only there; another file named in the submitting shell is not passed on.
FILES = (CONFIGURATION, ETC / "gres.conf")
OURS = "# One-node cluster of symlab's tests, removed when they end; started by process"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue", "scontrol")

# Memory and processors are only counted, so the node may claim more than there is: jobs of the smoke preset use 0.5 GB
# each, whatever they ask for. What they use is looked at every second; one over its memory is killed, as elsewhere.
SLURM_CONF = """\
ClusterName=symlab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
OverTimeLimit=0
KillWait=10
MinJobAge=600
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=64000 Gres=gpu:1 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""
# No GPU is computed on; SLURM wants a device file to count one.
GRES_CONF = "NodeName={host} Name=gpu File=/dev/null\n"


class ClusterError(Exception):
    """The daemons do not come up; the message holds the end of their logs."""


@dataclass
class Cluster:
    """A running one-node cluster; every method asks or tells it something by SLURM's own programs."""

    host: str
    folder: Path
    daemons: list[subprocess.Popen] = field(default_factory=list)

    def ask(self, *command: str) -> str:
        return subprocess.run(command, check=True, text=True, capture_output=True, timeout=30).stdout.strip()

    def jobs(self, state: str = "running") -> list[str]:
        """The ids of the jobs in a state."""
        return self.ask("squeue", "--noheader", "--format=%i", f"--states={state}").split()

    def states(self, *names: str) -> dict[str, str]:
        """Job id to state, finished jobs included; of all jobs, or of those with some names."""
        named = [f"--name={','.join(names)}"] if names else []
        lines = self.ask("squeue", "--noheader", "--format=%i %T", "--states=all", *named).splitlines()
        return dict(line.split() for line in lines)

    def describe(self, job: str) -> dict[str, str]:
        """What the cluster knows about a job, by the names of ``scontrol show job``."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def is_on_node(self, job: str) -> bool:
        """Whether some of a job still runs, whatever the controller thinks."""
        title = f"slurmstepd: [{job}.".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if path.read_bytes().startswith(title):
                    return True
        return False

    def is_hurried(self, job: str) -> bool:
        """Whether a job runs, which is to start at once if it waits.

        SLURM waits two minutes before it starts a job again, so that nothing of it is left on the node by then, and
        sets that time anew when it hears of the job's end only then. It refuses to hurry a job that is just starting
        or ending, so the order's outcome is not looked at, but the job's state.
        """
        if self.states()[job] == "PENDING":
            subprocess.run(["scontrol", "update", f"jobid={job}", "starttime=now"], capture_output=True, timeout=30)
        return self.states()[job] != "PENDING"

    def set_node(self, state: str) -> None:
        reason = ("reason=test",) if state in ("drain", "down") else ()
        self.ask("scontrol", "update", f"nodename={self.host}", f"state={state}", *reason)

    def node_state(self) -> str:
        return self.ask("sinfo", "--noheader", "--format=%T", f"--nodes={self.host}").split()[0]

    def wait(self, condition, what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                queue = self.ask("squeue", "--states=all", "--format=%i %T %r %S")
                raise ClusterError(f"after {seconds} s not yet {what}:\n{queue}\n{self.log()}")
            time.sleep(0.2)

    def log(self) -> str:
        """The last lines that each daemon wrote."""
        return "\n".join(
            f"{path.name}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-20:])
            for path in sorted(self.folder.glob("*.log"))
        )

    def start(self, *command: str) -> None:
        # In a session of their own, out of reach of a Ctrl-C meant for the tests, which then stop them in order.
        self.daemons.append(
            subprocess.Popen(
                command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder
            )
        )
        with (self.folder / "daemons").open("a") as file:
            file.write(f"{self.daemons[-1].pid} {command[0]}\n")

    def restart_node(self, job: str) -> None:
        """End slurmd and what is left of a job, and start it anew, as on a node that has failed and comes back.

        One that goes on remembers a job for seconds after its last process, and refuses to start it again meanwhile.
        """
        self.daemons[-1].terminate()
        self.daemons[-1].wait(timeout=30)
        self.daemons.pop()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"SLURM_JOB_ID={job}".encode() in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        self.start("slurmd", "-D")

    def responds(self) -> bool:
        return subprocess.run(["sinfo"], capture_output=True, timeout=30).returncode == 0

    def stop(self) -> None:
        if self.daemons and self.responds():
            subprocess.run(["scancel", "--user=root", "--signal=KILL", "--full"], capture_output=True, timeout=30)
            subprocess.run(["scancel", "--user=root"], capture_output=True, timeout=30)
            deadline = time.monotonic() + 20
            while self.jobs("running,completing,pending") and time.monotonic() < deadline:
                time.sleep(0.2)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def why_not() -> str | None:
    """The reason for which no cluster can be started here; None if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs SLURM and MUNGE ({', '.join(missing)} not found): apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "needs root to start a SLURM cluster"
    for path in FILES:
        if path.exists():
            first = path.read_text().partition("\n")[0]
            if not first.startswith(OURS):
                return f"{path} exists and is not the tests': this machine belongs to a real cluster"
            if Path("/proc", first.rsplit(" ", 1)[-1]).exists():
                return f"{path} is in use by other tests (process {first.rsplit(' ', 1)[-1]})"
    return None


def end_leftover() -> None:
    """End the daemons of tests that were killed before they could."""
    if not CONFIGURATION.exists():
        return
    folder = Path(CONFIGURATION.read_text().partition("StateSaveLocation=")[2].partition("\n")[0]).parent
    daemons = folder / "daemons"
    for line in daemons.read_text().splitlines() if daemons.exists() else []:
        pid, name = line.split()
        comm = Path("/proc", pid, "comm")
        if comm.exists() and comm.read_text().strip() == name:
            os.kill(int(pid), signal.SIGKILL)


@contextmanager
def one_node_cluster(folder: Path) -> Iterator[Cluster]:
    """Starts munged, slurmctld and slurmd with all their files in ``folder``; stops them and removes the configuration.

    Raises:
        ClusterError: the node is not idle within 30 s.
    """
    end_leftover()
    # Authentication of our own, so that a MUNGE that the machine may have is left alone.
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    cluster = Cluster(socket.gethostname().partition(".")[0], folder)
    ETC.mkdir(exist_ok=True)
    try:
        for path, text in zip(FILES, (SLURM_CONF, GRES_CONF), strict=True):
            path.write_text(f"{OURS} {os.getpid()}\n" + text.format(host=cluster.host, folder=folder))
        cluster.start(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"),
            *(f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")),
        )
        cluster.wait((folder / "munge.socket").exists, "listening: munged", 10)
        cluster.start("slurmctld", "-D")
        cluster.wait(cluster.responds, "answering: slurmctld", 30)
        cluster.start("slurmd", "-D")
        cluster.wait(lambda: cluster.node_state() == "idle", "idle: the node", 30)
        yield cluster
    finally:
        cluster.stop()
        for path in FILES:
            path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with one_node_cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running
