"""Where a launcher put a process, and how gradients are cut into groups."""

import pytest

from common.errors import ConfigError
from trainer.distributed.rank import Rank, gloo_under_mpi, launched_as


def open_mpi(rank, size, local_rank, local_size):
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
    }


def world(nodes, per_node, env):
    """The variables of every rank of a job that fills one node after the other."""
    size = nodes * per_node
    ranks = [Rank(rank, size, rank % per_node, per_node, "Open MPI") for rank in range(size)]
    return [gloo_under_mpi(env, launched) for launched in ranks]


# 1. Who started this process.


def test_without_a_launcher_there_is_no_rank():
    assert launched_as({"PATH": "/bin", "RANK": "3", "WORLD_SIZE": "4"}) is None


@pytest.mark.parametrize(
    ("launcher", "names"),
    [
        ("Horovod", [f"HOROVOD_{n}" for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]),
        ("Open MPI", list(open_mpi(5, 8, 1, 4))),
        ("MPI", ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]),
    ],
)
def test_a_launcher_is_recognised(launcher, names):
    env = dict(zip(names, "5814", strict=True))
    assert launched_as(env) == Rank(5, 8, 1, 4, launcher)


def test_a_launcher_that_says_nothing_of_its_nodes_has_one_rank_on_each():
    assert launched_as({"PMI_RANK": "5", "PMI_SIZE": "8"}) == Rank(5, 8, 0, 1, "MPI")


def test_horovod_goes_before_the_mpi_that_it_was_started_by():
    env = {**open_mpi(0, 1, 0, 1), "HOROVOD_RANK": "5", "HOROVOD_SIZE": "8"}
    launched = launched_as(env)
    assert launched is not None
    assert (launched.rank, launched.size, launched.launcher) == (5, 8, "Horovod")


def test_half_a_launcher_is_none():
    assert launched_as({"OMPI_COMM_WORLD_RANK": "5"}) is None


# 2. Gloo in a world that mpirun started.


def test_one_node_meets_on_itself():
    for variables in world(1, 4, {}):
        assert variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("env", "address"),
    [
        ({"AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"}, "10.0.0.4"),
        ({"AZ_BATCHAI_MPI_MASTER_NODE": "10.0.0.5"}, "10.0.0.5"),
        ({"MASTER_ADDR": "10.0.0.6"}, "10.0.0.6"),
        ({"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.7"}, "10.0.0.7"),
        ({"MASTER_ADDR": "10.0.0.6", "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"}, "10.0.0.6"),
        ({"MASTER_ADDR": "10.0.0.6", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.7"}, "10.0.0.7"),
    ],
    ids=["azure", "azure, old", "master", "horovod", "master over azure", "horovod over master"],
)
def test_several_nodes_meet_at_the_address_that_they_are_told(env, address):
    for variables in world(2, 2, env):
        assert variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == address


def test_several_nodes_without_an_address_are_told_which_variable_to_set():
    with pytest.raises(ConfigError, match="HOROVOD_GLOO_RENDEZVOUS_ADDR"):
        gloo_under_mpi({}, Rank(0, 4, 0, 2, "Open MPI"))


def test_nodes_with_unequal_numbers_of_processes_are_refused():
    with pytest.raises(ConfigError, match="5 processes, 3 on this node"):
        gloo_under_mpi({"MASTER_ADDR": "10.0.0.6"}, Rank(0, 5, 0, 3, "Open MPI"))


def test_ranks_and_sizes_are_those_of_mpirun():
    found = [
        {name: int(v[f"HOROVOD_{name}"]) for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")}
        for v in world(2, 3, {"MASTER_ADDR": "a"})
    ]
    assert found == [
        {"RANK": rank, "SIZE": 6, "LOCAL_RANK": rank % 3, "LOCAL_SIZE": 3} for rank in range(6)
    ]


def test_cross_ranks_count_the_nodes():
    variables = world(3, 2, {"MASTER_ADDR": "a"})
    assert [v["HOROVOD_CROSS_RANK"] for v in variables] == ["0", "0", "1", "1", "2", "2"]
    assert {v["HOROVOD_CROSS_SIZE"] for v in variables} == {"3"}


def test_ranks_of_one_node_share_its_name_and_no_other_nodes():
    names = [v["HOROVOD_HOSTNAME"] for v in world(2, 2, {"MASTER_ADDR": "a"})]
    assert names[0] == names[1] != names[2] == names[3]


def test_gloo_is_chosen_for_both_of_its_tasks():
    for variables in world(2, 2, {"MASTER_ADDR": "a"}):
        assert variables["HOROVOD_CONTROLLER"] == variables["HOROVOD_CPU_OPERATIONS"] == "gloo"


@pytest.mark.parametrize(
    "env",
    [
        {"PMIX_NAMESPACE": "prterun-node-17@1"},
        {"OMPI_MCA_ess_base_jobid": "3171418113"},
        {},
    ],
    ids=["PMIx", "Open MPI", "address"],
)
def test_all_ranks_of_a_job_use_one_port(env):
    variables = world(2, 4, {"MASTER_ADDR": "10.0.0.6", **env})
    ports = {v["HOROVOD_GLOO_RENDEZVOUS_PORT"] for v in variables}
    assert len(ports) == 1
    # Below the range that Linux gives away to connections.
    assert 1024 <= int(ports.pop()) < 32_768


def test_jobs_on_one_machine_use_ports_of_their_own():
    ports = {
        gloo_under_mpi({"PMIX_NAMESPACE": f"job-{n}"}, Rank(0, 2, 0, 2, "Open MPI"))[
            "HOROVOD_GLOO_RENDEZVOUS_PORT"
        ]
        for n in range(10)
    }
    assert len(ports) > 8


def test_a_port_that_was_set_stays():
    env = {"HOROVOD_GLOO_RENDEZVOUS_PORT": "4711", "PMIX_NAMESPACE": "job"}
    for variables in world(1, 2, env):
        assert variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "4711"


def test_what_is_set_for_horovod_is_read_back_as_the_same_rank():
    for rank, variables in enumerate(world(2, 3, {"MASTER_ADDR": "a"})):
        assert launched_as(variables) == Rank(rank, 6, rank % 3, 3, "Horovod")
