"""The facts that a process finds out about its machine and its InfiniBand."""

import resource
from unittest.mock import Mock

import pytest

from tests.trainer.support.fake_node import DRIVER, add_devices, add_port, make_node, ndv2, write
from trainer.diagnostics import machine
from trainer.diagnostics.infiniband import look

KB = 1024
UNLIMITED = "9223372036854771712"


# 1. Memory.


def test_memory_without_a_limit_is_the_machines(tmp_path):
    assert machine.memory(make_node(tmp_path)) == (1_000_000 * KB, 600_000 * KB)
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", "5\n")
    assert machine.memory(tmp_path) == (1_000_000 * KB, 600_000 * KB)


@pytest.mark.parametrize("path", ["/", "/docker/not-seen-from-inside"])
def test_a_container_has_its_limit_and_gets_its_copies_of_files_back(tmp_path, path):
    make_node(tmp_path)
    write(tmp_path / "proc/self/cgroup", f"0::{path}\n")
    write(tmp_path / "sys/fs/cgroup/memory.max", "400000000\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", "150000000\n")
    write(tmp_path / "sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 50000000\n")
    assert machine.memory(tmp_path) == (400_000_000, 300_000_000)


def test_the_narrowest_of_nested_limits_counts(tmp_path):
    make_node(tmp_path)
    write(tmp_path / "proc/self/cgroup", "0::/job/rank\n")
    for below, limit, used in (("job", 300_000_000, 290_000_000), ("job/rank", 400_000_000, 1)):
        write(tmp_path / "sys/fs/cgroup" / below / "memory.max", str(limit))
        write(tmp_path / "sys/fs/cgroup" / below / "memory.current", str(used))
    assert machine.memory(tmp_path) == (300_000_000, 10_000_000)


def test_limits_of_the_first_version_of_control_groups_count(tmp_path):
    make_node(tmp_path)
    write(tmp_path / "proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/\n")
    top = tmp_path / "sys/fs/cgroup/memory"
    write(top / "memory.limit_in_bytes", UNLIMITED)
    write(top / "memory.usage_in_bytes", "900000000")
    write(top / "job/memory.limit_in_bytes", "400000000")
    write(top / "job/memory.usage_in_bytes", "150000000")
    write(top / "job/memory.stat", "inactive_file 1\ntotal_inactive_file 50000000\n")
    assert machine.memory(tmp_path) == (400_000_000, 300_000_000)


def test_this_machine_has_memory():
    total, free = machine.memory()
    assert 0 < free < total


def test_a_kernel_that_tells_nothing_of_memory_is_no_error(tmp_path):
    assert machine.memory(tmp_path) == (0, 0)


# 2. Disks, limits, driver.


def test_a_file_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", Mock(side_effect=OSError))
    assert machine.free_disk(tmp_path) is None


def test_a_folder_that_is_not_there_has_the_disk_that_it_would_be_on(tmp_path, monkeypatch):
    assert machine.free_disk(tmp_path / "runs" / "new") > 0
    monkeypatch.chdir(tmp_path)
    assert machine.free_disk(machine.Path("runs/new")) > 0


def test_shared_memory_is_told_where_there_is_any(tmp_path):
    assert machine.shared_memory(tmp_path) is None
    (tmp_path / "dev/shm").mkdir(parents=True)
    assert machine.shared_memory(tmp_path) > 0


@pytest.mark.parametrize(("limit", "told"), [(65536, 65536), (resource.RLIM_INFINITY, None)])
def test_the_limit_of_locked_memory_is_told(monkeypatch, limit, told):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert machine.locked_memory() == told


OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs)  Tue"
)


@pytest.mark.parametrize(
    ("text", "version"), [(DRIVER, "535.161.08"), (OPEN, "550.54.15"), ("strange", "")]
)
def test_the_drivers_version_is_read(tmp_path, text, version):
    assert machine.driver(tmp_path) == ""
    write(tmp_path / "proc/driver/nvidia/version", text)
    assert machine.driver(tmp_path) == version


# 3. InfiniBand.


def test_a_node_of_azures_tells_its_infiniband_from_its_ethernet(tmp_path):
    found = look({}, ndv2(tmp_path))
    assert found.fault == ""
    assert found.adapters == ["mlx5_ib0"]
    assert str(found) == "mlx5_an0 (Ethernet, 40 Gb/sec), mlx5_ib0 (InfiniBand, 100 Gb/sec)"


def test_a_node_without_adapters_says_so(tmp_path):
    assert look({}, tmp_path).fault == "no adapter"


def test_ethernet_is_no_infiniband(tmp_path):
    add_port(tmp_path, "mlx5_0", "Ethernet")
    add_devices(tmp_path)
    fault = "no adapter but mlx5_0 (Ethernet, 100 Gb/sec), which is not InfiniBand"
    assert look({}, tmp_path).fault == fault


def test_a_port_that_is_down_is_of_no_use(tmp_path):
    add_port(tmp_path, "mlx5_0", state="1: DOWN", rate="10 Gb/sec (4X SDR)")
    add_devices(tmp_path)
    assert look({}, tmp_path).fault == "no active port: mlx5_0 (InfiniBand, 10 Gb/sec, DOWN)"
    add_port(tmp_path, "mlx5_1")
    assert look({}, tmp_path).fault == ""


def test_an_adapter_that_a_container_only_sees_is_of_no_use(tmp_path):
    add_port(tmp_path, "mlx5_0")
    assert "nothing in /dev/infiniband" in look({}, tmp_path).fault


@pytest.mark.parametrize(
    ("name", "value", "off"),
    [("NCCL_IB_DISABLE", "1", True), ("NCCL_IB_DISABLE", "0", False), ("NCCL_NET", "IB", False),
     ("NCCL_NET", "Socket", True), ("NCCL_IB_DISABLE", "", False)],
)  # fmt: skip
def test_a_variable_that_keeps_nccl_from_it_is_named(tmp_path, name, value, off):
    fault = look({name: value}, ndv2(tmp_path)).fault
    assert fault == (f"{name}={value} keeps NCCL from it" if off else "")


def test_an_adapter_that_tells_little_is_no_error(tmp_path):
    add_port(tmp_path, "mlx5_0")
    (tmp_path / "sys/class/infiniband/mlx5_0/ports/1/rate").unlink()
    add_devices(tmp_path)
    assert str(look({}, tmp_path)) == "mlx5_0 (InfiniBand)"


def test_a_machine_without_a_place_for_temporary_files_has_no_such_disk(monkeypatch):
    monkeypatch.setattr(machine.tempfile, "gettempdir", Mock(side_effect=FileNotFoundError))
    assert machine.free_scratch() is None
    monkeypatch.undo()
    assert machine.free_scratch() > 0
