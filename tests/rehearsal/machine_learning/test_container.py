"""The command of a job in an image, and its refusals, without any image."""

import os
import subprocess

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.machine_learning import container
from rehearsal.machine_learning.container import failed_rank, script, shared_variables
from rehearsal.machine_learning.processes import RankProgram
from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.rehearsal.support.programs import only_programs

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


def test_values_that_ranks_share_are_in_no_file(tmp_path):
    programs = [program(tmp_path, rank) for rank in (0, 1)]
    shared = shared_variables(programs)
    # The client that starts a container reads the others as its own.
    assert shared == {"TOKEN": "secret", "WORDS": "two 'quoted'\nlines"}
    text = script(programs[1], shared)
    assert "secret" not in text
    assert "export PATH=/jobs/own" in text


def test_a_script_runs_the_program_in_its_folder_and_writes_its_log(tmp_path):
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


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({}, "image: cannot run the image: .*podman is not installed"),
        (
            {"buildah": "exit 0"},
            "^image: buildah can build images, but not stop containers; install",
        ),
        ({"podman": "exit 1"}, "^image: podman has no such image on this machine; `make"),
        ({"podman": '[ "$1" = inspect ]'}, "^image: cannot run the image: podman cannot run image"),
    ],
    ids=["nothing", "buildah", "no image", "does not run"],
)
def test_an_image_that_cannot_be_run_is_refused_at_once(tmp_path, monkeypatch, programs, words):
    state, tools = tmp_path / "state", tmp_path / "tools"
    tools.mkdir()
    only_programs(tools, monkeypatch, **programs)
    with pytest.raises(RehearsalError, match=words):
        Simulator(state, Options(image="image"))
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
def test_files_of_jobs_belong_to_who_rehearses(tmp_path, monkeypatch, engine, uid, user):
    only_programs(tmp_path, monkeypatch, docker=f'[ "$1" != info ] || echo "{engine}"')
    (tmp_path / "timeout").symlink_to("/usr/bin/timeout")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert container.open_image("image").user == user
