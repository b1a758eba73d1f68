"""What NCCL's log tells, and that its warnings come through.

The logs are the lines that matter of such as others have published, with other names and addresses;
those of 2.21.5 with GPUs are in the form that its source has.
"""

import os

import pytest

from common.errors import UserError
from trainer.diagnostics.nccl import NcclLog, nccl_log, read_log
from trainer.distributed.rank import Rank

INFINIBAND = """\
node0:310:310 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>
node0:310:310 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)
node0:310:310 [0] NCCL INFO cudaDriverVersion 12040
node0:310:310 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
node0:310:344 [0] NCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB [RO]; OOB eth0:10.0.0.4<0>
node0:310:344 [0] NCCL INFO Using non-device net plugin version 0
node0:310:344 [0] NCCL INFO Using network IB
node0:310:344 [0] NCCL INFO Channel 00/02 :    0   3   2   1   5   6   7   4   8  11  10   9
node0:310:344 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/8/-1->0->-1
node0:310:344 [0] NCCL INFO Channel 00/0 : 12[4] -> 0[0] [receive] via NET/IB/0/GDRDMA
node0:310:344 [0] NCCL INFO Channel 00/0 : 0[0] -> 3[3] via P2P/IPC
node0:310:344 [0] NCCL INFO Channel 01/0 : 0[0] -> 3[3] via P2P/IPC
node0:310:344 [0] NCCL INFO Connected all rings
node0:310:344 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels,\
 1 p2p channels per peer
"""

SOCKET = """\
a0001:47:47 [3] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
a0001:47:47 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.5<0>
a0001:47:47 [3] NCCL INFO NET/IB : No device found.
a0001:47:47 [3] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.5<0>
a0001:47:47 [3] NCCL INFO Using network Socket
NCCL version 2.18.3+cuda12.1
a0001:47:213 [3] NCCL INFO NET/Socket: Using 2 threads and 8 sockets per thread
a0001:47:213 [3] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/Socket/0
a0001:47:213 [3] NCCL INFO Channel 01/0 : 0[0] -> 7[7] via P2P/IPC/read
"""

ROCE = """\
h100-4:770:770 [0] NCCL INFO Bootstrap : Using enp220s0np0:10.1.128.136<0>
NCCL version 2.19.3+cuda12.3
h100-4:770:842 [0] NCCL INFO NET/IB : Using [0]mlx5_10:1/RoCE [1]mlx5_11:1/RoCE [RO]; OOB e0:10.1.1.6<0>
h100-4:770:842 [0] NCCL INFO Using network IB
"""  # noqa: E501

MERGED = """\
node0:1:9 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/RoCE\
 [RO]; OOB eth0:10.0.0.4<0>
node0:1:9 [0] NCCL INFO Using network IB
"""

PLUGIN = """\
kol1:27255:27906 [0] NCCL INFO Using network IBext_v8
kol1:27255:27906 [0] NCCL INFO Channel 00/0 : 4[0] -> 0[0] [receive] via NET/IBext_v8/0/GDRDMA
kol1:27255:27906 [0] NCCL INFO Channel 02/0 : 2[2] -> 0[0] via P2P/CUMEM
"""

NO_DRIVER = """\
vm:10407:10407 [32764] NCCL INFO Bootstrap : Using eth0:192.0.2.2<0>
vm:10407:10407 [32616] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)
vm:10407:10407 [0] NCCL INFO NET/Plugin: Using internal network plugin.

vm:10407:10407 [0] misc/cudawrap.cc:182 NCCL WARN Cuda failure 'CUDA driver version is insufficient'

vm:10407:10407 [7] init.cc:1832 NCCL WARN Cuda failure 'CUDA driver version is insufficient'
"""
"""What NCCL 2.21.5 wrote on a machine without a GPU."""


# 1. The network.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (INFINIBAND, "NCCL 2.21.5: between nodes InfiniBand (mlx5_ib0:1/IB), with GPUDirect"),
        (INFINIBAND.replace("/GDRDMA", ""),
         "NCCL 2.21.5: between nodes InfiniBand (mlx5_ib0:1/IB), without GPUDirect"),
        (SOCKET, "NCCL 2.18.3: between nodes no InfiniBand but Socket, without GPUDirect"),
        (ROCE, "NCCL 2.19.3: between nodes no InfiniBand but Ethernet (mlx5_10:1/RoCE,"
         " mlx5_11:1/RoCE)"),
        (MERGED, "NCCL: between nodes InfiniBand (mlx5_0:1/IB, mlx5_1:1/IB, mlx5_2:1/RoCE)"),
        (PLUGIN, "NCCL: between nodes IBext_v8, with GPUDirect"),
        (NO_DRIVER, "NCCL: its log does not show the network between nodes"),
    ],
)  # fmt: skip
def test_a_log_tells_the_network_between_nodes(text, words):
    assert read_log(text).words(nodes=2) == words


@pytest.mark.parametrize(
    ("text", "infiniband"),
    [(INFINIBAND, True), (MERGED, True), (SOCKET, False), (ROCE, False),
     (PLUGIN, None), (NO_DRIVER, None)],
)  # fmt: skip
def test_infiniband_is_claimed_or_denied_only_where_the_log_shows_it(text, infiniband):
    assert read_log(text).infiniband is infiniband
    assert read_log(text).words(nodes=1).endswith(": all ranks are on one node")


@pytest.mark.parametrize(
    "text", ["", "\0\xff\n", "NCCL INFO Using network \n", "x NCCL INFO NET/IB : Using", "\n" * 9]
)
def test_a_log_of_an_unknown_form_is_no_error(text):
    transport = read_log(text)
    assert transport.infiniband is None
    assert transport.words(nodes=2).startswith("NCCL: ")


# 2. Its warnings.


@pytest.fixture
def env(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return {"NCCL_DEBUG": "WARN"}


def test_a_log_is_begun_for_nccl_and_its_warnings_go_to_stderr_once(env, tmp_path, capfd):
    log = NcclLog.begin(env)
    (path,) = tmp_path.iterdir()
    assert env == {
        "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(path), "NCCL_DEBUG_SUBSYS": "INIT,NET",
    }  # fmt: skip
    assert log.transport() is None
    text = NO_DRIVER.encode()
    middle = text.index(b"NCCL WARN") + 3
    path.write_bytes(text[:middle])
    log.relay()
    path.write_bytes(text)
    log.relay()
    log.relay()
    assert log.transport() == read_log(NO_DRIVER)
    log.end()
    warned = [line for line in NO_DRIVER.splitlines() if "WARN" in line]
    assert capfd.readouterr().err.splitlines() == warned
    assert list(tmp_path.iterdir()) == []


def test_all_lines_but_informational_ones_go_to_stderr(env, tmp_path, capfd):
    lines = [
        "node0:1:2 [0] NCCL INFO Using network IB",
        "[2025-01-01 10:00:00] node0:1:2 [0] transport/net_ib.cc:94 NCCL WARN first",
        "goes on",
        "node0:1:2 [0] NCCL INFO Connected all rings",
        "",
        "NCCL version 2.21.5+cuda12.4",
        "node0:1:2 [0] of a kind that nobody knows",
    ]
    log = NcclLog.begin(env)
    next(tmp_path.iterdir()).write_text("".join(f"{line}\n" for line in lines))
    log.end()
    assert capfd.readouterr().err.splitlines() == [lines[1], lines[2], lines[5], lines[6]]


def test_the_watching_thread_passes_warnings_on_while_nobody_asks(env, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.diagnostics.nccl.RELAY_SECONDS", 0.01)
    read, write = os.pipe()
    with os.fdopen(write, "w") as stderr, os.fdopen(read) as printed:
        monkeypatch.setattr("sys.stderr", stderr)
        log = NcclLog.begin(env)
        next(tmp_path.iterdir()).write_text(NO_DRIVER)
        # Blocks until the thread has printed.
        assert "cudawrap.cc:182 NCCL WARN" in printed.readline()
        log.end()


def test_a_run_that_fails_shows_the_end_of_the_log(env, tmp_path, capfd):
    NcclLog.begin(dict(env)).end(failed=True)
    assert capfd.readouterr().err == ""
    log = NcclLog.begin(env)
    (path,) = tmp_path.iterdir()
    path.write_text(INFINIBAND + "\nnode0:310:399 [0] NCCL WARN NET/IB : Got async event\n")
    path_text = path.read_text().splitlines()
    log.end(failed=True)
    warning, head, *lines = capfd.readouterr().err.splitlines()
    assert "Got async event" in warning
    assert "lines of NCCL's log of rank 0" in head
    assert lines == path_text[-len(lines) :]
    assert lines[-1] == warning
    assert not path.exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"NCCL_DEBUG": "INFO"},
        {"NCCL_DEBUG": "trace"},
        {"NCCL_DEBUG_FILE": "/x/%h.%p"},
        {"NCCL_DEBUG_SUBSYS": "COLL"},
    ],
)
def test_a_person_who_asked_for_a_log_gets_it(env, tmp_path, asked):
    given = dict(asked)
    assert NcclLog.begin(given) is None
    assert given == asked
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_for_a_file_there_is_no_log(env, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert NcclLog.begin(env) is None
    assert env == {"NCCL_DEBUG": "WARN"}


# 3. Whose NCCL writes a log.


@pytest.mark.parametrize(
    ("launched", "gpus", "begun"),
    [(None, True, False), (Rank(0, 1, 0, 1, "MPI"), True, False),
     (Rank(1, 2, 1, 2, "MPI"), True, False), (Rank(0, 2, 0, 2, "MPI"), False, False),
     (Rank(0, 2, 0, 2, "MPI"), True, True)],
)  # fmt: skip
def test_rank_0_of_several_with_gpus_has_its_nccl_write_a_log(
    monkeypatch, tmp_path, launched, gpus, begun
):
    monkeypatch.setattr("trainer.diagnostics.nccl.has_gpus", lambda: gpus)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        # Set and then taken away, so that whatever is set here is undone.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with nccl_log(launched) as log:
        assert (log is not None) == ("NCCL_DEBUG_FILE" in os.environ) == begun
    assert list(tmp_path.iterdir()) == []


def test_the_warnings_of_a_run_that_fails_are_passed_on(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr("trainer.diagnostics.nccl.has_gpus", lambda: True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "environ", {})

    def fail():
        with nccl_log(Rank(0, 2, 0, 2, "MPI")):
            next(tmp_path.iterdir()).write_text(NO_DRIVER)
            raise UserError("lost")

    with pytest.raises(UserError):
        fail()
    errors = capfd.readouterr().err
    passed_on, _, end = errors.partition("lines of NCCL's log of rank 0")
    assert passed_on.count("NCCL WARN") == end.count("NCCL WARN") == 2
