"""Worlds of several ranks and hosts, and worlds that their launcher did not mean."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from tests import ROOT
from tests.trainer.support import scenarios
from tests.trainer.support.command import TIMEOUT, TINY, result
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.world import run_world
from trainer.distributed.horovod import check_own_name, split_by_size, uses_gloo

TWO_HOSTS = [
    {"HOROVOD_HOSTNAME": f"host{rank}", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1",
     "HOROVOD_CROSS_RANK": str(rank), "HOROVOD_CROSS_SIZE": "2"}
    for rank in range(2)
]  # fmt: skip


@pytest.mark.slow
def test_a_world_that_is_not_the_launchers_is_refused(tmp_path):
    overrides = [{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}]
    (message,) = run_world(scenarios.pretend_mpi, 1, str(tmp_path), overrides=overrides)
    assert "Open MPI started 2 processes, but Horovod sees 1" in message


@pytest.mark.slow
def test_gloo_under_mpirun_trains_as_one_world(workplace):
    # What mpirun sets is all that a rank sees of it.
    env = [
        {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "PMIX_NAMESPACE": f"test-{os.getpid()}",
        }
        for rank in range(2)
    ]
    args = ("train", *TINY, "--name", "run", "--max-steps", "3")
    ended = fork_trainer(*args, cwd=workplace, env=env, launched=False)
    assert ended.statuses == [0, 0], ended.stderr
    assert result(workplace / "runs" / "run")["ranks"] == 2
    assert "2 ranks" in ended.outputs[0]
    assert "step" not in ended.outputs[1]


@pytest.fixture
def two_namespaces():
    """Two network namespaces on a bridge: two hosts, as far as their network is concerned."""
    names = [f"trainer{os.getpid()}h{number}" for number in range(2)]
    bridge = f"tb{os.getpid() % 100000}"

    def ip(*args):
        subprocess.run(["ip", *args], check=True)

    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", "10.77.13.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            ip("netns", "add", name)
            ends = ["type", "veth", "peer", "name", "eth0", "netns", name]
            ip("link", "add", f"{bridge}v{number}", *ends)
            ip("link", "set", f"{bridge}v{number}", "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.77.13.{10 + number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            # Gloo's second context ignores its interface's name and asks for the host's address.
            hosts = Path("/etc/netns", name, "hosts")
            hosts.parent.mkdir(parents=True)
            hosts.write_text(
                f"127.0.0.1 localhost\n10.77.13.{10 + number} {socket.gethostname()}\n"
            )
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        subprocess.run(["ip", "link", "del", bridge], check=False)


def can_make_namespaces():
    name = f"probe{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made.returncode == 0


def check_two_hosts(results):
    for rank, outcome in enumerate(results):
        assert outcome["rank"] == (rank, 2, 0, 1)
        assert outcome["images"] == 5 * 32
        for mine, first in zip(outcome["weights"], results[0]["weights"], strict=True):
            assert mine.tobytes() == first.tobytes()


@pytest.mark.slow
def test_two_host_names_train_together_each_with_local_rank_zero(digits_folder):
    config = scenarios.tiny_config(str(digits_folder), batch_size=16)
    check_two_hosts(run_world(scenarios.take_steps, 2, config, 5, overrides=TWO_HOSTS))


@pytest.mark.skipif(not can_make_namespaces(), reason="this user may not make network namespaces")
@pytest.mark.long
def test_two_network_namespaces_train_together(digits_folder, two_namespaces):
    across = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.77.13.1", "HOROVOD_GLOO_IFACE": "eth0"}
    results = run_world(
        scenarios.take_steps,
        2,
        scenarios.tiny_config(str(digits_folder), batch_size=16),
        5,
        overrides=[{**host, **across} for host in TWO_HOSTS],
        prefixes=[["ip", "netns", "exec", name] for name in two_namespaces],
        address="10.77.13.1",
    )
    check_two_hosts(results)


# 3. Groups of gradients.


SIZES = st.lists(st.integers(0, 10**7), max_size=200)


@given(SIZES, st.integers(1, 20))
def test_groups_are_consecutive_and_complete(sizes, groups):
    parts = split_by_size(sizes, groups)
    assert [index for part in parts for index in part] == list(range(len(sizes)))


@given(SIZES, st.integers(1, 20))
def test_no_group_is_empty_and_there_are_no_more_than_asked_for(sizes, groups):
    parts = split_by_size(sizes, groups)
    assert all(parts)
    assert len(parts) <= groups


@given(SIZES, st.integers(1, 20))
def test_no_group_exceeds_its_part_by_more_than_one_tensor(sizes, groups):
    for part in split_by_size(sizes, groups):
        assert sum(sizes[index] for index in part) <= sum(sizes) / groups + max(sizes)


def test_equal_tensors_are_cut_into_equal_groups():
    assert split_by_size([5] * 6, 3) == [[0, 1], [2, 3], [4, 5]]


def test_one_group_holds_everything():
    assert split_by_size([3, 0, 7], 1) == [[0, 1, 2]]


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
    # An address for documentation, which no host has.
    answer(monkeypatch, "192.0.2.9")
    with pytest.raises(UserError, match=r"resolves to 192\.0\.2\.9, which is not an address of"):
        check_own_name()


def test_a_resolver_that_does_not_answer_is_not_waited_for_without_end(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait() and [])
    with pytest.raises(UserError, match=r"does not resolve within 0\.05 s"):
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


RENAMED = ["unshare", "--map-root-user", "--uts", "sh", "-c"]
RENAMED += ['hostname nowhere.invalid && exec "$@"', "sh"]


def can_rename():
    try:
        made = subprocess.run([*RENAMED, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return made.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_rename(), reason="this user may not give a host name of its own")
def test_two_ranks_on_a_machine_with_such_a_name_end_with_the_reason(digits_folder, tmp_path):
    command = [*RENAMED, sys.executable, "-m", "trainer", "train", *TINY, "--ranks", "2"]
    ended = subprocess.run(
        [*command, "--data.dir", str(digits_folder), "--runs-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert ended.returncode == UserError.exit_code, ended.stderr
    assert "'nowhere.invalid', does not resolve" in ended.stderr
    assert "SIGSEGV" not in ended.stderr
