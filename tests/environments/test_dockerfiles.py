"""The images contain the trainer's packages, in the versions that it is tested with."""

import ast
import re
import subprocess
import sys
from importlib.metadata import distributions

import pytest

from infra.catalog import vm_sizes
from jobs.spec.build_context import LOCK, build_context
from tests import ROOT
from tests.repository.test_import_rules import files, imported

IMAGES = ("cpu", "gpu")
NOT_IN_IMAGES = {"tf2onnx", "onnx", "onnxruntime", "pyspark", "pandas", "pydicom", "cryptography"}
"""Packages for ONNX exports and DICOM files, which a user's machine has, and of a Spark cluster."""

COMPUTE_CAPABILITY = {"V100": 70, "T4": 75, "A100": 80, "H100": 90, "H200": 90}
"""CUDA compute capability of NVIDIA's GPU models, times ten."""


def locked(name):
    """Return the locked versions by package."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def one_name(package):
    """Normalize a package name as package indexes do, the same for both TensorFlow packages."""
    return re.sub(r"[-_.]+", "-", package).lower().removesuffix("-cpu")


@pytest.fixture(scope="module")
def packages():
    """Packages by the modules that are imported from them.

    `importlib.metadata.packages_distributions` looks for each of their files, which takes a minute.
    """
    by_module = {}
    for package in distributions():
        listed = package.read_text("top_level.txt")
        if listed is None:
            files = (
                line.split(",")[0] for line in (package.read_text("RECORD") or "").splitlines()
            )
            listed = " ".join(file.split("/")[0].removesuffix(".py") for file in files)
        by_module |= dict.fromkeys(listed.split(), package.metadata["Name"])
    # Several packages share this name; it is the one of these that is imported by it.
    return by_module | {"google": "protobuf"}


def dockerfile(image):
    return (ROOT / "environments" / image / "Dockerfile").read_text()


def instructions(text):
    """Return the instructions of a Dockerfile without comments, one per line."""
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return [re.sub(r"\s+", " ", line) for line in "\n".join(lines).replace("\\\n", " ").split("\n")]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_the_versions_that_are_tested(image):
    tested, there = locked("trainer"), locked(image)
    shared = tested.keys() & there.keys()
    assert {"horovod", "numpy", "tf-keras", "protobuf", "safetensors"} <= shared
    assert {name: there[name] for name in shared} == {name: tested[name] for name in shared}


def test_each_image_has_its_own_tensorflow_of_one_version():
    cpu, gpu = locked("cpu"), locked("gpu")
    assert cpu["tensorflow-cpu"] == gpu["tensorflow"] == locked("trainer")["tensorflow-cpu"]
    assert "tensorflow" not in cpu
    assert "tensorflow-cpu" not in gpu


@pytest.mark.parametrize("image", IMAGES)
def test_all_that_the_trainer_imports_is_in_the_image(image, packages):
    shipped = [ast.parse(path.read_text()) for path in files("trainer") + files("common")]
    named = {name.split(".")[0] for tree in shipped for name in imported(tree)}
    named -= sys.stdlib_module_names
    modules = named - {"common", "trainer", "_typeshed"} - NOT_IN_IMAGES
    names = {one_name(packages[module]) for module in modules}
    there = {one_name(name) for name in locked(image)}
    assert len(names) > 10
    assert names <= there


@pytest.mark.parametrize("image", IMAGES)
def test_azure_finds_what_it_asks_of_an_image(image):
    assert {"ipykernel"} <= locked(image).keys()
    assert {"openssh-server", "openmpi-bin"} <= set(dockerfile(image).split())


@pytest.mark.parametrize("image", IMAGES)
def test_the_build_context_holds_what_the_build_copies(image):
    contents = build_context(ROOT, image).contents
    copied = [
        source
        for line in instructions(dockerfile(image))
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    own = {"Standard_ND40rs_v2.nccl.xml"} if image == "gpu" else set()
    assert {LOCK, "check.py", "horovod-cmake", "openmpi-mca-params.conf"} | own == set(copied)
    assert {"Dockerfile", *copied} == set(contents)


@pytest.mark.parametrize("image", IMAGES)
def test_the_lock_is_dealt_to_wheels_and_to_what_is_compiled(image, tmp_path):
    (program,) = re.findall(r"awk ('.*?')", dockerfile(image))
    contents = build_context(ROOT, image).contents
    (tmp_path / LOCK).write_bytes(contents[LOCK])
    subprocess.run(["sh", "-c", f"awk {program} {LOCK}"], cwd=tmp_path, check=True)
    compiled, wheels = ((tmp_path / f"{name}.txt").read_text() for name in ("horovod", "wheels"))
    assert re.findall(r"^\S+==", compiled, re.MULTILINE) == ["horovod=="]
    assert "--hash=sha256:" in compiled
    assert len(re.findall(r"^\S+==", wheels, re.MULTILINE)) == len(locked(image)) - 1
    assert "horovod==" not in wheels


def test_the_images_differ_in_cuda_alone():
    one, other = (build_context(ROOT, image).contents for image in IMAGES)
    for name in ("check.py", "horovod-cmake", "openmpi-mca-params.conf"):
        assert one[name] == other[name], name
    cpu, gpu = (instructions(dockerfile(image)) for image in IMAGES)
    for line in cpu:
        words = [word for word in line.split() if word != "\\"]
        assert any(set(words) <= set(other.split()) for other in gpu), line


@pytest.mark.parametrize("image", IMAGES)
def test_nothing_of_the_builder_is_in_the_last_stage(image):
    lines = instructions(dockerfile(image))
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    assert lines[last] == "FROM base"
    kept = "\n".join(lines[last:] + lines[: lines.index("FROM base AS build")])
    assert not re.search(
        r"PIP_|build-essential|-dev\b|\bcmake\b|\bpip\b", kept.replace("-devel-", "")
    )


@pytest.mark.parametrize("image", IMAGES)
def test_mpirun_binds_no_rank_and_may_use_infiniband(image):
    text = build_context(ROOT, image).contents["openmpi-mca-params.conf"].decode()
    values = dict(re.findall(r"^(\w+) *= *(.*)$", text, re.MULTILINE))
    assert values["hwloc_base_binding_policy"] == "none"
    assert not [name for name, value in values.items() if "ucx" in value]


def test_horovod_is_compiled_for_every_gpu_that_can_be_had():
    (listed,) = re.findall(r"HOROVOD_BUILD_CUDA_CC_LIST=(\S+)", dockerfile("gpu"))
    models = {size.gpu.split()[1] for size in vm_sizes.deployable(gpu=True)}
    assert {COMPUTE_CAPABILITY[model] for model in models} == set(map(int, listed.split(",")))


def test_the_compiler_is_of_the_cuda_that_runs():
    (image,) = re.findall(r"nvidia/cuda:(\d+\.\d+)\.\d+-devel", dockerfile("gpu"))
    (copied,) = re.findall(r"--from=cuda /usr/local/cuda-(\S+)", dockerfile("gpu"))
    runs = locked("gpu")["nvidia-cuda-runtime-cu12"]
    assert image == copied == ".".join(runs.split(".")[:2])


@pytest.mark.parametrize("name", ["gpu", "workstation"])
def test_cudnn_still_has_kernels_for_v100(name):
    assert tuple(map(int, locked(name)["nvidia-cudnn-cu12"].split(".")[:2])) < (9, 11)


@pytest.mark.parametrize("name", ["cpu", "gpu", "trainer", "workstation"])
def test_nothing_is_installed_that_nothing_imports(name):
    assert not {"libclang", "jedi", "mlflow-skinny", "azureml-mlflow"} & locked(name).keys()


def test_a_workstation_gets_the_versions_that_are_tested():
    tested, there = locked("trainer"), locked("workstation")
    one = {one_name(name): version for name, version in tested.items()}
    other = {one_name(name): version for name, version in there.items()}
    assert one.items() <= other.items()
    assert all(name.startswith("nvidia-") for name in other.keys() - one.keys())


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (
            ["SOURCES", "-DA=B"],
            ["SOURCES", "-DA=B", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG"],
        ),
        (["--build", ".", "--", "-j8"], ["--build", ".", "--target", "tensorflow", "--", "-j8"]),
        (["--version"], ["--version"]),
    ],
    ids=["configure", "build", "else"],
)
def test_horovods_build_leaves_out_what_does_not_compile_and_what_is_not_used(
    tmp_path, given, passed
):
    lists = tmp_path / "sources" / "horovod" / "tensorflow" / "CMakeLists.txt"
    lists.parent.mkdir(parents=True)
    kept = 'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc")\n'
    lists.write_text(other := kept + kept.replace("mpi_ops", "xla_mpi_ops"))
    cmake = tmp_path / "cmake"
    cmake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    cmake.chmod(0o755)
    sources = str(tmp_path / "sources")
    done = subprocess.run(
        [
            ROOT / "environments" / "shared" / "horovod-cmake",
            *(one.replace("SOURCES", sources) for one in given),
        ],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [one.replace("SOURCES", sources) for one in passed]
    assert lists.read_text() == (kept if "SOURCES" in given else other)


@pytest.mark.slow
def test_an_image_without_a_way_of_exchange_is_refused():
    check = ROOT / "environments" / "shared" / "check.py"
    # This environment's Horovod has Gloo alone.
    done = subprocess.run(
        [sys.executable, check, "gloo", "mpi"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "error: Horovod was built without mpi;" in done.stderr
