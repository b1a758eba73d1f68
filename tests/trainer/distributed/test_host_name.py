"""A machine whose own name leads nowhere is told so, instead of crashing in Gloo."""

import socket
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest

from common.errors import UserError
from tests import ROOT
from tests.trainer.support.command import TINY
from trainer.distributed.horovod import check_own_name, uses_gloo


def answer(monkeypatch, *addresses):
    monkeypatch.setattr(socket, "gethostname", lambda: "node")
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)


def test_this_machines_name_leads_to_it():
    check_own_name()


def test_one_address_of_its_own_is_enough(monkeypatch):
    answer(monkeypatch, "192.0.2.9", "127.0.0.1")
    check_own_name()


def test_a_name_that_does_not_resolve_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=unknown))
    with pytest.raises(UserError) as caught:
        check_own_name()
    text = str(caught.value)
    assert "'nowhere.invalid', does not resolve (" in text
    assert "'127.0.0.1 nowhere.invalid' to /etc/hosts" in text


def test_a_name_that_leads_elsewhere_is_refused(monkeypatch):
    # An address for documentation, which nobody has.
    answer(monkeypatch, "192.0.2.9")
    with pytest.raises(UserError, match=r"resolves to 192\.0\.2\.9, which is no address of"):
        check_own_name()


def test_a_resolver_that_does_not_answer_is_not_waited_for_without_end(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait() and [])
    with pytest.raises(UserError, match=r"is not resolved within 0\.05 s"):
        check_own_name(0.05)
    released.set()


class Built:
    def __init__(self, mpi):
        self.mpi_built = lambda: mpi


@pytest.mark.parametrize(
    ("mpi", "env", "gloo"),
    [(False, {}, True), (True, {}, False),
     (True, {"HOROVOD_CONTROLLER": "gloo"}, True), (True, {"HOROVOD_CONTROLLER": "mpi"}, False),
     (True, {"HOROVOD_CPU_OPERATIONS": "GLOO"}, True)],
)  # fmt: skip
def test_only_a_world_that_starts_gloo_needs_the_name(mpi, env, gloo):
    assert uses_gloo(Built(mpi), env) is gloo


def can_rename():
    try:
        made = subprocess.run([*RENAMED, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return made.returncode == 0


RENAMED = [
    "unshare",
    "--map-root-user",
    "--uts",
    "sh",
    "-c",
    'hostname nowhere.invalid && exec "$@"',
    "sh",
]


@pytest.mark.slow
@pytest.mark.skipif(not can_rename(), reason="this user may not give a host name of its own")
def test_two_ranks_on_a_machine_with_such_a_name_end_with_the_reason(digits_folder, tmp_path):
    command = [*RENAMED, sys.executable, "-m", "trainer", "train", *TINY, "--ranks", "2"]
    ended = subprocess.run(
        [*command, "--data.dir", str(digits_folder), "--runs-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == UserError.exit_code, ended.stderr
    assert "'nowhere.invalid', does not resolve" in ended.stderr
    assert "SIGSEGV" not in ended.stderr
