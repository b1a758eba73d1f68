"""The GPU image, compiled with Debian's CUDA, as far as it can be tested without a GPU."""

import re
import subprocess

import pytest

from common.containers import Container, Mount
from environments.build import ROOT, Order
from environments.builders import find_builder
from environments.stand_in import cuda_compiler

pytestmark = pytest.mark.images_gpu

IMAGE = Order("gpu", tag=cuda_compiler.TAG).name
SITE = "opt/trainer/lib/python3.11/site-packages"
COMPILERS = ("cc", "gcc", "g++", "cc1plus", "as", "ld", "make", "cmake", "nvcc", "cicc", "cudafe++")
OPENED_BY_TENSORFLOW = """
libcublas.so.12 libcublasLt.so.12 libcudart.so.12 libcudnn.so.9 libcufft.so.11 libcupti.so.12
libcurand.so.10 libcusolver.so.11 libcusparse.so.12 libnccl.so.2 libnvJitLink.so.12
"""
SUM = """
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
total = hvd.allreduce(tf.constant([1.0 + hvd.rank()]), op=hvd.Sum).numpy().tolist()
print(f"rank {hvd.rank()} of {hvd.size()}: {total}, nccl {hvd.nccl_built()}")
"""


@pytest.fixture(scope="module")
def builder():
    found = find_builder()
    for image in (IMAGE, cuda_compiler.IMAGE):
        assert found.engine.has(image), f"{image}: is not here; make -C tools images-gpu builds it"
    return found


@pytest.fixture(scope="module")
def root(builder):
    """The image's files."""
    with builder.root(IMAGE) as folder:
        yield folder


@pytest.fixture(scope="module")
def horovod(root):
    """The compiled library of Horovod."""
    (found,) = (root / SITE / "horovod" / "tensorflow").glob("mpi_lib*.so")
    return found


@pytest.fixture
def run(builder, request):
    """Return the output of a program in a container, which must succeed."""
    name = re.sub(r"\W+", "-", f"images-gpu-{request.node.name}")

    def run(*program, image=IMAGE, mounts=(), folder="/"):
        command = builder.engine.run_command(Container(image, program, name, mounts, folder=folder))
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    builder.engine.remove_container(name)


def test_no_compiler_is_in_it(root):
    folders = [root / name for name in ("usr/bin", "usr/local/bin", "usr/lib/gcc", "opt", "build")]
    there = {path.name for folder in folders for path in folder.rglob("*")}
    assert {"python3.11", "mpirun", "sshd"} <= there | {
        p.name for p in (root / "usr/sbin").iterdir()
    }
    assert not there & set(COMPILERS)
    assert not (root / "usr/local/cuda").exists()


def test_what_xla_calls_while_it_compiles_is_in_it(root):
    nvcc = root / SITE / "nvidia" / "cuda_nvcc"
    assert (nvcc / "bin" / "ptxas").stat().st_mode & 0o111
    assert (nvcc / "nvvm" / "libdevice" / "libdevice.10.bc").is_file()


def test_nothing_of_the_builder_is_in_it(root):
    assert not (root / "etc/pip.conf").exists()
    assert not list((root / "usr/local/share/ca-certificates").glob("*"))
    assert not (root / "root/.cache/pip").exists()


def test_horovod_has_the_machine_code_of_every_gpu_that_can_be_had(run, horovod):
    text = (ROOT / "environments" / "gpu" / "Dockerfile").read_text()
    (wanted,) = re.findall(r"HOROVOD_BUILD_CUDA_CC_LIST=(\S+)", text)

    def listed(kind):
        mounts = [Mount(horovod, "/horovod.so")]
        said = run("cuobjdump", kind, "/horovod.so", image=cuda_compiler.IMAGE, mounts=mounts)
        return re.findall(r"\.sm_(\d+)\.", said)

    assert listed("--list-elf") == wanted.split(",")
    # From this a driver makes the code of GPUs that are newer.
    assert listed("--list-ptx") == [wanted.split(",")[-1]]


def test_horovod_is_linked_to_the_nccl_that_tensorflow_takes(run, root, horovod):
    inside = f"/{horovod.relative_to(root)}"
    found = dict(re.findall(r"^\s*(\S+) => (not found|\S+)", run("ldd", inside), re.MULTILINE))
    assert found["libnccl.so.2"] == f"/{SITE}/nvidia/nccl/lib/libnccl.so.2"
    # Of the process that loads it: TensorFlow has them open by then.
    missing = {name for name, where in found.items() if where == "not found"}
    assert missing == {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"}


def test_tensorflow_finds_each_library_of_cuda(run):
    names = OPENED_BY_TENSORFLOW.split()
    said = run(
        "python", "-c", f"import ctypes\nfor name in {names}: print(ctypes.CDLL(name)._name)"
    )
    assert said.split() == names


def test_two_ranks_sum_over_mpi_what_is_in_memory(run):
    said = run("mpirun", "-np", "2", "python", "-c", SUM)
    locked = re.search(
        r"nvidia-nccl-cu12==(\d+)\.(\d+)\.(\d+)", (ROOT / "locks/gpu.txt").read_text()
    )
    major, minor, patch = map(int, locked.groups())
    nccl = major * 10000 + minor * 100 + patch
    assert sorted(re.findall(r"rank .*", said.replace("\r", ""))) == [
        f"rank {rank} of 2: [3.0], nccl {nccl}" for rank in range(2)
    ]


def test_two_ranks_train_digits(run, tmp_path):
    mounts = [Mount(ROOT / world, f"/code/{world}") for world in ("common", "trainer")]
    mounts.append(Mount(tmp_path, "/runs", writable=True))
    train = ["python", "-m", "trainer", "train", "--preset", "digits", "--max-steps", "4"]
    ranks = ["mpirun", "-np", "2", *train, "--runs-dir", "/runs"]
    said = run(*ranks, mounts=mounts, folder="/code")
    assert "trained 4 steps" in said
    assert "on 2 ranks" in said
    assert (tmp_path / "latest" / "result.json").is_file()
    assert (tmp_path / "latest" / "export").is_dir()
