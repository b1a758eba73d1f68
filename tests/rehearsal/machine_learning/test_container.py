"""What a job in an image is started with, and what is refused, without any image."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from rehearsal import lifetime
from rehearsal.cycle import runner
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.machine_learning import container
from rehearsal.machine_learning.container import failed_rank, script, shared_variables
from rehearsal.machine_learning.processes import RankProgram
from rehearsal.options import Options

BY_STATUS = b"""rank 0 speaks
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[41374,1],3]
  Exit code:    7
"""
BY_SIGNAL = (
    b"mpirun noticed that process rank 12 with PID 0 on node x exited on signal 9 (Killed).\n"
)


def program(folder, rank, **variables):
    shared = {"TOKEN": "secret", "PATH": "/jobs/own", "WORDS": "two 'quoted'\nlines"}
    own = {"RANK": str(rank), "HOME": str(folder)}
    return RankProgram('echo $RANK; echo "$TOKEN"; pwd; exit 4', folder, shared | own | variables,
                   folder / f"log of {rank}")  # fmt: skip


def test_what_the_ranks_share_is_handed_on_without_its_values_in_any_file(tmp_path):
    programs = [program(tmp_path, rank) for rank in (0, 1)]
    shared = shared_variables(programs)
    # The client that starts a container reads the others as its own.
    assert shared == {"TOKEN": "secret", "WORDS": "two 'quoted'\nlines"}
    text = script(programs[1], shared)
    assert "secret" not in text
    assert "export PATH=/jobs/own" in text


def test_a_script_becomes_the_program_in_its_folder_and_writes_its_log(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    one = program(folder, 1, PATH=os.environ["PATH"])
    shared = shared_variables([one])
    (tmp_path / "script").write_text(script(one, shared))
    done = subprocess.run(
        ["sh", str(tmp_path / "script")], env=os.environ | shared, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")
    assert one.log.read_text() == f"1\nsecret\n{folder}\n"


@pytest.mark.parametrize(
    ("words", "rank"),
    [(BY_STATUS, 3), (BY_SIGNAL, 12), (BY_SIGNAL + BY_STATUS, 3), (b"out of memory", 0)],
)
def test_mpirun_tells_which_rank_has_failed(words, rank):
    assert failed_rank(words) == rank


def machine(folder, monkeypatch, **programs):
    """Have these programs alone on the path, and what starts others."""
    (folder / "env").symlink_to("/usr/bin/env")
    for name, body in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({}, "image: cannot be run: .*podman is not installed"),
        ({"buildah": "exit 0"}, "cannot end what it runs; install Podman"),
        ({"podman": "exit 1"}, "is no image of podman here; `make images` builds"),
        ({"podman": '[ "$1" = inspect ]'}, "image: cannot be run: podman cannot run image"),
    ],
    ids=["nothing", "buildah", "no image", "does not run"],
)
def test_an_image_that_cannot_be_run_is_refused_before_anything_begins(
    tmp_path, monkeypatch, programs, words
):
    state, tools = tmp_path / "state", tmp_path / "tools"
    tools.mkdir()
    machine(tools, monkeypatch, **programs)
    with pytest.raises(RehearsalError, match=words):
        Loopback(state, Options(image="image"))
    assert not state.exists()


@pytest.mark.parametrize(
    ("engine", "uid", "user"),
    [
        ("[name=seccomp,profile=builtin]", 1000, f"1000:{os.getegid()}"),
        ("[name=seccomp,profile=builtin name=rootless]", 1000, None),
        ("[name=seccomp,profile=builtin]", 0, None),
    ],
    ids=["root's", "rootless", "as root"],
)
def test_what_jobs_write_is_whose_rehearsal_it_is(tmp_path, monkeypatch, engine, uid, user):
    machine(tmp_path, monkeypatch, docker=f'[ "$1" != info ] || echo "{engine}"')
    (tmp_path / "timeout").symlink_to("/usr/bin/timeout")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert container.open_image("image").user == user


def test_a_cycle_that_cannot_have_its_image_leaves_the_last_one_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "azure").mkdir()
    record = tmp_path / runner.RECORD
    record.write_text("kept")
    monkeypatch.setattr(runner, "TRAINER", Path("/bin/sh"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(RehearsalError, match="image: cannot be run"):
        runner.run(runner.CycleOptions(folder=tmp_path, image="image"))
    assert record.read_text() == "kept"


def test_what_is_left_of_an_owner_is_removed_and_nothing_else(tmp_path, monkeypatch):
    said = tmp_path / "said"
    listed = f"echo {lifetime.container_name('0f', 'x')}; echo {lifetime.container_name('0f', 'y')}"
    body = f'echo "$*" >>{said}; [ "$1" != ps ] || {{ {listed}; }}'
    machine(tmp_path, monkeypatch, docker=body)
    lifetime.remove_containers("docker", "0f")
    assert said.read_text().splitlines() == [
        "ps --all --format={{.Names}} --filter=name=rehearsal-0f-",
        "rm --force --volumes rehearsal-0f-x",
        "rm --force --volumes rehearsal-0f-y",
    ]
