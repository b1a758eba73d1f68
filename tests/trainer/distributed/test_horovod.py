"""Worlds of several hosts, and worlds that are not what their launcher meant."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.trainer.support import scenarios
from tests.trainer.support.world import run_world

pytestmark = pytest.mark.slow

TWO_HOSTS = [
    {"HOROVOD_HOSTNAME": f"host{rank}", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1",
     "HOROVOD_CROSS_RANK": str(rank), "HOROVOD_CROSS_SIZE": "2"}
    for rank in range(2)
]  # fmt: skip


def test_a_world_that_is_not_the_launchers_is_refused(tmp_path):
    overrides = [{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}]
    (message,) = run_world(scenarios.pretend_mpi, 1, str(tmp_path), overrides=overrides)
    assert "Open MPI started 2 processes, but Horovod sees 1" in message


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
            ip(
                "link",
                "add",
                f"{bridge}v{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
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
    for rank, result_of_rank in enumerate(results):
        assert result_of_rank["rank"] == (rank, 2, 0, 1)
        assert result_of_rank["images"] == 5 * 32
        for mine, first in zip(result_of_rank["weights"], results[0]["weights"], strict=True):
            assert mine.tobytes() == first.tobytes()


def test_two_host_names_train_together_each_with_local_rank_zero(digits_folder):
    config = scenarios.tiny_config(str(digits_folder), batch_size=16)
    check_two_hosts(run_world(scenarios.take_steps, 2, config, 5, overrides=TWO_HOSTS))


if can_make_namespaces():

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
