"""Two containers as two nodes: mpirun connects to the other by SSH, as in a cluster."""

import re
import shutil
import subprocess
import time

import pytest

from common.containers import Buildah
from tests.images.training import BRIEF, PACED, metrics, saved, train

pytestmark = pytest.mark.images


@pytest.fixture(scope="module")
def other_node(image):
    """Address of a node that runs an SSH server."""
    if isinstance(image.builder.engine, Buildah):
        pytest.skip("Buildah cannot isolate the network of containers; install Podman or Docker")
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed (openssh-client)")
    (image.folder / "ssh").mkdir()
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", image.folder / "ssh" / "key"]
    subprocess.run(make, check=True)
    address = image.folder / "address"
    with image.started("sh", "/inside/node.sh") as node:
        deadline = time.monotonic() + 60
        while not address.exists():
            assert node.poll() is None, node.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield address.read_text().strip()


def on_both(address, command):
    """Return an mpirun command for this node and the other."""
    assert command[:3] == ["mpirun", "-np", "2"]
    return ["sh", "/inside/on_nodes.sh", address, *command[3:]]


def test_ranks_of_two_nodes_train_as_one_world_and_are_stopped_together(image, other_node):
    command = on_both(other_node, train(*PACED, *BRIEF, "--name", "nodes"))
    scene = {"until": r"^step +\d+ ", "times": 3, "signal": "SIGUSR1", "target": "launcher"}
    (told,) = image.drive({"command": command, **scene})
    assert told["status"] == 138, told["said"]
    run = image.folder / "runs" / "nodes"
    (start,) = metrics(run, "start")
    assert start["ranks"] == 2
    assert start["environment"]["nodes"] == 2
    (stop,) = metrics(run, "stop")
    assert list(saved(run))[-1] == stop["step"]
    assert re.search("stopped after step", told["said"])
