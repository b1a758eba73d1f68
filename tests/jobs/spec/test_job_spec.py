"""A JobSpec is valid; all problems of an invalid one are reported at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.spec.job_spec import Folder, JobSpec, datastore_uri
from tests.jobs.support import samples
from tests.jobs.support.platform import platform

STACK = platform()
SOUND = samples.training(2, STACK)
MOUNT = Folder("azureml:imagenet:3", "ro_mount")
RESULT = Folder("azureml://datastores/results/paths/runs/a", "rw_mount")


def problems(**changes):
    with pytest.raises(SpecError) as caught:
        replace(SOUND, **changes)
    return caught.value.problems


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "a.b"}, "name: 'a.b'"),
        ({"name": "a" * 256}, "at most 255"),
        ({"experiment": ""}, "experiment: ''"),
        ({"environment": "trainer-gpu"}, "must be NAME:VERSION"),
        ({"environment": "trainer-gpu@latest"}, "must be NAME:VERSION"),
        ({"nodes": 0}, "allows 1 to 16"),
        ({"nodes": 17}, "allows 1 to 16; request fewer, or raise its maximum"),
        ({"processes_per_node": 4}, "has 8 GPUs"),
        ({"processes_per_node": None, "nodes": 1}, "has 8 GPUs"),
        ({"processes_per_node": 0}, "must be at least 1"),
        ({"shm_size": "64 gigs"}, "--shm-size: '64 gigs'"),
        ({"timeout_seconds": 0}, "--timeout-hours: 0"),
        ({"timeout_seconds": -5}, "--timeout-hours"),
        (
            {"timeout_seconds": 7 * 24 * 3600 + 1},
            "to 168 hours; omit it, as a longer run continues",
        ),
        ({"command": "python ${{inputs.nope}}"}, "${{inputs.nope}} is not among"),
        ({"command": "python ${{outputs.nope}}"}, "${{outputs.nope}} is not among"),
        ({"command": "python ${{ inputs.data }}"}, "${{ inputs.data }} is not among"),
        ({"command": "python ${{parent.x}}"}, "${{parent.x}} is not among"),
        ({"command": "python ${{inputs.data"}, "${{ is not among"),
        ({"command": "python"}, "${{inputs.data}} is never used"),
        ({"command": " ", "inputs": {}, "outputs": {}}, "command: is empty"),
        ({"inputs": {"data": replace(MOUNT, mode="rw_mount")}}, "inputs are read-only"),
        ({"inputs": {"data": replace(MOUNT, uri="azureml:imagenet")}}, "inputs.data"),
        ({"inputs": {"data": replace(MOUNT, uri="./data")}}, "inputs.data"),
        (
            {"inputs": {"data": replace(MOUNT, uri="azureml://datastors/a/paths/b")}},
            "inputs.data",
        ),
        (
            {"inputs": {"data": replace(MOUNT, uri="azureml://datastores/a/paths/../b")}},
            "inputs.data",
        ),
        ({"outputs": {"run": MOUNT}}, "outputs.run"),
        (
            {"outputs": {"run": replace(RESULT, mode="download")}},
            "pre-emption would lose everything",
        ),
    ],
)
def test_what_could_not_run_is_refused(changes, told):
    assert any(told in problem for problem in problems(**changes))


def test_every_problem_is_told_at_once():
    found = problems(
        name="a b", nodes=99, processes_per_node=3, shm_size="1", timeout_seconds=10**9,
        command="python ${{inputs.x}}", outputs={"run": MOUNT},
    )  # fmt: skip
    keys = [problem.partition(":")[0] for problem in found]
    assert keys == [
        "name", "--nodes", "processes", "--shm-size", "--timeout-hours", "outputs.run",
        "outputs.run", "command", "command", "command",
    ]  # fmt: skip


def test_a_cluster_larger_than_mpi_is_told():
    large = replace(SOUND.cluster, max_nodes=200)
    assert any("MPI jobs to 100 nodes" in one for one in problems(cluster=large, nodes=101))
    assert replace(SOUND, cluster=large, nodes=100).ranks == 800


def test_a_job_on_nodes_of_ones_own_may_live_longer():
    own = replace(SOUND.cluster, priority="Dedicated")
    assert replace(SOUND, cluster=own, timeout_seconds=21 * 86_400).timeout_seconds == 1_814_400


def test_one_process_without_mpi_runs_on_one_node():
    spec = samples.preparation(STACK)
    assert spec.ranks == 1
    with pytest.raises(SpecError, match="one process on one node"):
        replace(spec, nodes=2)


@given(st.integers(-5, 40), st.integers(-1, 12), st.integers(1, 30))
def test_the_ranks_of_a_spec_are_the_gpus_of_its_nodes(nodes, processes, most):
    cluster = replace(SOUND.cluster, max_nodes=most)
    try:
        spec = replace(SOUND, cluster=cluster, nodes=nodes, processes_per_node=processes)
    except SpecError:
        assert not 1 <= nodes <= most or processes != 8
    else:
        assert spec.ranks == nodes * 8


@given(st.text(), st.text())
def test_a_datastore_path_never_leaves_its_container(datastore, folder):
    try:
        spec: JobSpec = replace(
            SOUND, outputs={"run": Folder(datastore_uri(datastore, folder), "rw_mount")}
        )
    except SpecError:
        return
    path = spec.outputs["run"].uri.split("/paths/", 1)[1]
    assert not {"", ".", ".."} & set(path.split("/"))
    assert not set("?#\\ ") & set(path)


@pytest.mark.parametrize(
    ("each", "processes", "told"),
    [
        (2, 8, "processes: 8 per node, but Standard_ND40rs_v2 has 8 GPUs and a process uses 2"),
        (3, 2, "GPUs per process: 3 does not divide the 8 GPUs"),
        (16, 1, "GPUs per process: 16 does not divide the 8 GPUs"),
    ],
)
def test_processes_that_would_leave_gpus_idle_or_share_them_are_refused(each, processes, told):
    (problem,) = problems(gpus_per_process=each, processes_per_node=processes)
    assert told in problem
