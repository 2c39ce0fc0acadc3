"""What a user may get wrong is told in a sentence on stderr, with exit status 1 and nothing written."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from symlab.alignment import permute as permute_module
from symlab.cli import align as align_module


def refused(brought, capsys, factory="mlp", *options, **files):
    """The sentence that the command ends with, after checking that it left nothing behind."""
    before = {path.name for path in brought.folder.iterdir()}
    with pytest.raises(SystemExit) as raised:
        brought.align(factory, *options, **files)
    assert isinstance(raised.value.code, str), "a sentence, which Python prints on stderr with exit status 1"
    assert {path.name for path in brought.folder.iterdir()} - {"__pycache__"} == before - {"__pycache__"}
    assert capsys.readouterr() == ("", "")
    return raised.value.code


def test_a_disk_that_is_full_leaves_nothing_behind(mlps, capsys, monkeypatch):
    def full(path, table):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(align_module, "write_table", full)
    assert "No space left on device" in refused(mlps, capsys)
    (mlps.folder / "out").mkdir()
    assert "No space left on device" in refused(mlps, capsys)
    assert list((mlps.folder / "out").iterdir()) == []


def test_a_wrong_permutation_is_never_written(mlps, capsys, monkeypatch):
    monkeypatch.setattr(permute_module, "differences", lambda before, after: (1.0, 1.0, 0.1))
    assert "renumbering the neurons changed the network" in refused(mlps, capsys)


def test_a_gpu_that_is_not_there(mlps, capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "torch sees no GPU" in refused(mlps, capsys, "mlp", "--device", "cuda")


def command(*arguments, folder, **environment):
    return subprocess.run(
        [sys.executable, "-m", "symlab", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        timeout=60,
    )


def test_an_interrupt_ends_with_the_shell_s_status_of_one(mlps, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(align_module, "align", interrupted)
    with pytest.raises(SystemExit) as ended:
        mlps.align("mlp")
    assert ended.value.code == 128 + signal.SIGINT


def test_help_and_a_process_that_ends_with_a_sentence_and_status_1_do_not_wait_for_torch(tmp_path):
    # A module of that name that cannot be imported stands before the real one.
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    for arguments in (("--help",), ("align", "--help")):
        result = command(*arguments, folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "symlab align A.safetensors B.safetensors" in result.stdout
    result = command("algin", folder=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: there is no command 'algin'; did you mean align?\n"
