"""How the image's mpirun starts and ends ranks, with each build of Horovod."""

import json
import os
import re

import pytest

from common.containers import Mount
from tests.images.image import GLOO_ONLY, gloo_only
from tests.images.training import SHORT, metrics, train

pytestmark = pytest.mark.images

GRACE_SECONDS = 3
"""Seconds of a save that must not be lost, whichever process is told to end."""

OF = {"launcher": "mpirun", "0": "a rank"}


@pytest.fixture(scope="module")
def gloo(image):
    """A Horovod without MPI, mounted over the image's."""
    if not GLOO_ONLY.is_dir():
        pytest.skip(f"{GLOO_ONLY} does not exist; `make setup` builds it")
    mount = gloo_only()
    done = image.run("python", "/opt/trainer/check.py", "gloo", mounts=[mount])
    if done.returncode:
        # Where it is to be shown it must not be left out in silence.
        assert not os.environ.get("CI"), done.stderr
        pytest.skip(f"this machine's Horovod cannot be imported in the image: {done.stderr}")
    return mount


@pytest.fixture
def no_names(image):
    """A container in which no host name resolves, not even its own."""
    file = image.folder / "hosts"
    file.touch()
    return Mount(file, "/etc/hosts")


def test_no_rank_is_bound_to_a_core(image):
    ask = ("python", "-c", "import os; print('may use', sorted(os.sched_getaffinity(0)))")
    free, bound = image.drive({"command": ask}, {"command": ["mpirun", "-np", "2", *ask]})
    assert bound["status"] == 0, bound["said"]
    assert re.findall("may use .*", bound["said"]) == 2 * [free["said"].strip()]


@pytest.mark.parametrize("target", OF)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_save_of_seconds_is_not_lost(name, target, image, measured):
    folder = f"saved-{name}-{target}"
    rank = ["python", "/inside/slow_rank.py", str(GRACE_SECONDS), folder]
    scene = {"until": "ready", "times": 2, "signal": name, "target": target}
    (told,) = image.drive({"command": ["mpirun", "-np", "2", *rank], **scene})
    assert told["seconds"] is not None, told["said"]
    measured[f"a save of {GRACE_SECONDS} s, by {name} to {OF[target]}"] = f"{told['seconds']:.1f} s"
    assert {path.name for path in (image.folder / folder).glob("*")} == {"0", "1"}, told["said"]


def test_a_horovod_without_mpi_forms_the_world_that_mpirun_has_started(image, gloo):
    (told,) = image.drive({"command": train(*SHORT, "--name", "gloo")}, mounts=[gloo])
    assert told["status"] == 0, told["said"]
    run = image.folder / "runs" / "gloo"
    assert json.loads((run / "result.json").read_text())["ranks"] == 2
    (start,) = metrics(run, "start")
    assert start["environment"]["controller"] == "Gloo"


def test_a_horovod_without_mpi_refuses_nodes_without_a_known_first(image, gloo):
    apart = ("env", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0")
    command = train(*SHORT, "--name", "apart", before=apart)
    (told,) = image.drive({"command": command}, mounts=[gloo])
    assert told["status"] == 2, told["said"]
    assert "HOROVOD_GLOO_RENDEZVOUS_ADDR: Horovod is built without MPI" in told["said"]
    assert not (image.folder / "runs" / "apart").exists()


def test_mpi_needs_no_name_of_the_container(image, no_names):
    command = train(*SHORT, "--name", "nameless")
    (told,) = image.drive({"command": command}, mounts=[no_names])
    assert told["status"] == 0, told["said"]


def test_gloo_is_refused_where_the_containers_name_does_not_resolve(image, gloo, no_names):
    command = train(*SHORT, "--name", "nowhere")
    (told,) = image.drive({"command": command}, mounts=[gloo, no_names])
    assert told["status"] == 1, told["said"]
    assert re.search(r"this machine's host name, '.+', does not resolve", told["said"])
    assert "Segmentation fault" not in told["said"]
