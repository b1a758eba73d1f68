"""Builds of images, with stand-ins for Docker, Podman, Buildah and mmdebstrap."""

import json
import re
from pathlib import Path

import pytest

from common.containers import Docker, Podman
from common.errors import UserError
from environments import base, build
from environments.__main__ import main
from environments.build import Order
from environments.builders import BUILDERS, DockerBuilder, PodmanBuilder, Recipe
from environments.stand_in import cuda_compiler
from jobs.spec.build_context import build_context
from tests import ROOT
from tests.common.support.engines import PODMAN

MMDEBSTRAP = """
echo "mmdebstrap $*" >> "$SAID"
for last; do :; done
: > "$last"
"""


@pytest.fixture(autouse=True)
def no_reader(tmp_path, monkeypatch):
    """A machine without the tools for the bill of materials."""
    monkeypatch.setattr(build, "SYFT", tmp_path / "nowhere")


@pytest.fixture
def podman(machine):
    """A stand-in for Podman, which needs no privileges."""
    machine.install("podman", PODMAN)
    return PodmanBuilder(Podman())


def order(tmp_path, **fields):
    return Order("cpu", folder=tmp_path / "images", **fields)


def test_a_machine_without_a_builder_is_told_what_to_install(machine, capsys):
    assert main(["build", "cpu"]) == 1
    error = capsys.readouterr().err
    assert "podman is not installed; buildah is not installed" in error
    assert "apt-get install podman" in error


def test_a_base_that_cannot_be_pulled_is_made_of_debians_packages(podman, machine, tmp_path):
    machine.install("mmdebstrap", MMDEBSTRAP)
    told = []
    built = build.build(podman, order(tmp_path), told.append)
    assert built.base == base.LOCAL
    assert any("cannot pull it (Error: no such host)" in line for line in told)
    (made,) = machine.said("mmdebstrap")
    assert "etc/resolv.conf" in made, "the servers of names of this machine"
    assert machine.said(f"--build-arg=BASE_IMAGE={base.LOCAL}")
    build.build(podman, order(tmp_path), told.append)
    assert len(machine.said("mmdebstrap")) == 1


def test_a_base_that_can_neither_be_pulled_nor_made_is_an_error(podman, tmp_path):
    with pytest.raises(UserError, match=r"mmdebstrap.* is not installed.* BASE=IMAGE"):
        build.build(podman, order(tmp_path), str)


def test_a_base_that_is_named_is_taken_as_it_is(podman, machine, tmp_path):
    named = order(tmp_path, base="registry.example/debian:12", arguments={"PIP_INDEX_URL": "x"})
    assert build.build(podman, named, str).base == "registry.example/debian:12"
    (built,) = machine.said("podman build")
    assert "--build-arg=BASE_IMAGE=registry.example/debian:12" in built
    assert "--build-arg=PIP_INDEX_URL=x" in built
    assert not machine.said("pull")


def test_a_record_tells_a_cold_build_from_a_warm_one(podman, tmp_path, monkeypatch):
    given = order(tmp_path, base="debian")
    cold = build.build(podman, given, str)
    assert (cold.steps, cold.cached_steps) == (2, 0)
    assert cold.cold_seconds == cold.seconds
    assert cold.version == build_context(ROOT, "cpu").version
    monkeypatch.setenv("CACHED", "1")
    warm = build.build(podman, given, str)
    assert (warm.cached_steps, warm.cold_seconds) == (2, cold.seconds)
    record = given.beside / "build.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": "another"}))
    assert build.build(podman, given, str).cold_seconds is None


def test_what_is_inside_is_written_beside_what_was_built_anew(
    podman, machine, tmp_path, monkeypatch
):
    reader = tmp_path / "syft"
    reader.touch()
    monkeypatch.setattr(build, "SYFT", reader)
    given, read = order(tmp_path, base="debian"), []

    def write(*arguments):
        read.append(arguments)
        if len(read) == 2:
            raise UserError("bad")

    monkeypatch.setattr(build.inventory, "write", write)
    build.build(podman, given, str)
    ((program, root, to, name),) = read
    assert (program, to, name) == (reader, given.beside, "trainer-cpu:latest")
    assert str(root) == f"/root of {given.name}"
    assert f"podman image unmount {given.name}" in machine.said()
    build.build(podman, given, str)
    assert len(read) == 1
    monkeypatch.setenv("ID", "another")
    with pytest.raises(UserError, match="bad"):
        build.build(podman, given, str)
    build.build(podman, given, str)
    assert len(read) == 3, "what failed is done again"


@pytest.mark.parametrize("kind", [Podman, Docker])
def test_who_is_not_root_reads_an_image_that_was_exported(kind, machine, tmp_path, monkeypatch):
    (tmp_path / "files" / "etc").mkdir(parents=True)
    (tmp_path / "files" / "etc" / "os-release").write_text("Debian")
    monkeypatch.setenv("FILES", str(tmp_path / "files"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine.install(
        kind.program,
        'echo "$*" >> "$SAID"; case $1 in'
        ' create) echo one ;; export) tar -c -C "$FILES" . ;; image) exit 125 ;; esac',
    )
    with BUILDERS[kind](kind()).root("an-image") as root:
        assert (root / "etc" / "os-release").read_text() == "Debian"
    assert not root.exists()
    assert machine.said()[0] == "create an-image true"
    assert machine.said()[-1].startswith("rm --force")
    assert machine.said()[-1].endswith(" one")


def test_a_fresh_build_asks_for_the_newest_base(podman, machine, tmp_path):
    machine.install("mmdebstrap", MMDEBSTRAP)
    for fresh in (False, False, True):
        build.build(podman, order(tmp_path, fresh=fresh), str)
    asked = machine.said("pull")
    made = machine.said("mmdebstrap")
    assert (len(asked), len(made)) == (2, 2)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("#7 [base 2/2] RUN apt-get update", "base 2/2] RUN apt-get update"),
        ("#1 [internal] load build definition", None),
        ("#2 [auth] library/debian:pull token", None),
        ("Step 3/9 : RUN apt-get update", "3/9 : RUN apt-get update"),
        ("#7 12.3 Get:1 bookworm", None),
    ],
)
def test_steps_of_docker_are_known_with_buildkit_and_without(line, step):
    found = DockerBuilder.step.match(line)
    assert (found and found[1]) == step


def test_a_failed_build_shows_its_end_and_where_the_rest_is(podman, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(UserError, match="status 7") as caught:
        build.build(podman, order(tmp_path, base="debian"), str)
    assert "gcc: out of luck" in str(caught.value)
    log = Path(re.search(r"in (\S+build\.log)", str(caught.value))[1])
    assert "RUN compile" in log.read_text()


def test_a_build_that_was_stopped_is_none_whatever_its_status(podman, tmp_path, monkeypatch):
    monkeypatch.setenv("STOPPED", "1")
    given = order(tmp_path, base="debian")
    with pytest.raises(UserError, match="interrupted; run the command again"):
        build.build(podman, given, str)
    assert not build.record(given).exists()


def test_an_image_beyond_its_budget_is_refused(podman, tmp_path, monkeypatch):
    monkeypatch.setenv("SIZE", str(build.BUDGET["cpu"] + 1))
    with pytest.raises(UserError, match=r"more than its limit of 2\.20"):
        build.build(podman, order(tmp_path, base="debian"), str)


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_fresh_build_takes_nothing_from_earlier_ones(kind):
    def command(**fields):
        return BUILDERS[kind](kind()).build_command(Recipe(Path("/context"), **fields), "name")

    assert "--no-cache" in command(fresh=True)
    assert "--no-cache" not in command()
    assert command()[-1] == "/context"


def test_authorities_of_this_machine_are_of_the_build_alone(podman, monkeypatch, tmp_path):
    bundle = tmp_path / "authorities.crt"
    bundle.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    command = podman.build_command(Recipe(Path("/context")), "name")
    assert f"--volume={bundle}:/etc/ssl/certs/ca-certificates.crt:ro" in command


@pytest.mark.parametrize("image", ["cpu", "gpu"])
def test_the_base_is_an_argument_of_the_build(image):
    text = (ROOT / "environments" / image / "Dockerfile").read_text()
    assert base.declared(text).endswith("debian:bookworm-slim")
    with pytest.raises(UserError, match="ARG BASE_IMAGE"):
        base.declared("FROM scratch\n")


def test_the_gpu_image_can_be_tried_with_a_stand_in_for_nvidias(podman, machine, tmp_path):
    wanted = Order("gpu", "debian", {"PIP_INDEX_URL": "x"}, folder=tmp_path / "images")
    order = cuda_compiler.stand_in_order(podman, wanted, str)
    built = build.build(podman, order, str)
    first, second = machine.said("podman build")
    assert "--build-arg=BASE_IMAGE=debian" in first
    assert first.endswith(f"--tag={cuda_compiler.IMAGE} {cuda_compiler.FOLDER}")
    assert f"--build-arg=BUILD_IMAGE={cuda_compiler.IMAGE}" in second
    assert "--build-arg=PIP_INDEX_URL=x" in second
    assert built.name == "localhost/trainer-gpu:stand-in", "never taken for the one of jobs"
    assert order.beside != wanted.beside


def test_a_stand_in_that_cannot_be_made_shows_why(machine, tmp_path, monkeypatch, capsys):
    machine.install("podman", PODMAN)
    monkeypatch.setenv("BROKEN", "1")
    assert main(["build", "gpu", "--stand-in", "--base", "debian"]) == 1
    assert "gcc: out of luck" in capsys.readouterr().err
    assert len(machine.said("podman build")) == 1


def test_the_image_for_processors_has_nothing_to_stand_in_for(machine, tmp_path, capsys):
    machine.install("podman", PODMAN)
    assert main(["build", "cpu", "--stand-in", "--base", "debian"]) == 1
    assert "trainer-cpu: does not use CUDA" in capsys.readouterr().err
    assert not machine.said()


def test_the_stand_in_has_what_is_copied_of_nvidias_image():
    copied = re.search(r"--from=cuda (\S+)", (ROOT / "environments/gpu/Dockerfile").read_text())[1]
    text = (cuda_compiler.FOLDER / "Dockerfile").read_text()
    assert set(re.findall(r"/usr/local/cuda[^/\s]*", text)) == {copied}
