"""What makes images here, with stand-ins for Docker, Podman, Buildah and mmdebstrap."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from common.containers import (
    Buildah,
    Container,
    Docker,
    Mount,
    Podman,
    Recipe,
    find,
)
from common.errors import UserError
from environments import base, build, stand_in
from environments.__main__ import main
from environments.build import Order
from jobs.spec.build_context import build_context
from tests import ROOT

PODMAN = """
echo "podman $*" >> "$SAID"
case "$1 $2" in
    "inspect --type=image") grep -qx "$3" "$HERE" ;;
    "image inspect") echo "${SIZE:-1000}" ;;
    "image mount") echo "/root of $3" ;;
    "pull "*) echo "Error: no such host" >&2; exit 125 ;;
    "build "*)
        for one; do case $one in --tag=*) echo "${one#--tag=}" >> "$HERE" ;; esac; done
        echo "[1/2] STEP 1/3: FROM debian"
        echo "[1/2] STEP 2/3: RUN apt-get update     && apt-get install"
        [ -z "$CACHED" ] || echo "--> Using cache 123"
        echo "[1/2] STEP 3/3: RUN compile"
        [ -z "$CACHED" ] || echo "--> Using cache 456"
        [ -z "$BROKEN" ] || { echo "gcc: out of luck"; exit 7; }
        [ -z "$STOPPED" ] || exit 0
        for one; do case $one in --iidfile=*) echo "${ID:-1}" > "${one#--iidfile=}" ;; esac; done ;;
    "run "*)
        [ -n "$CONTAINERS_CONF" ] || { echo "cannot set limits" >&2; exit 126; }
        [ -z "$BROKEN" ] || { echo "cannot at all" >&2; exit 126; } ;;
esac
"""
MMDEBSTRAP = """
echo "mmdebstrap $*" >> "$SAID"
for last; do :; done
: > "$last"
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with no builder; its function installs a program."""
    path = tmp_path / "bin"
    path.mkdir()
    # What the stand-ins and the code itself need of a system.
    for name in ("sh", "grep", "env", "timeout", "tar"):
        (path / name).symlink_to(
            next(f for d in os.get_exec_path() if (f := Path(d, name)).exists())
        )
    for name in ("SSL_CERT_FILE", "CONTAINERS_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(path))
    (tmp_path / "said").touch()
    (tmp_path / "here").touch()
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv("HERE", str(tmp_path / "here"))
    monkeypatch.setattr(build, "SBOM", tmp_path / "nowhere")

    def install(name, script):
        (path / name).write_text(f"#!/bin/sh\n{script}")
        (path / name).chmod(0o755)

    return install


def said(tmp_path):
    return (tmp_path / "said").read_text().splitlines()


def order(tmp_path, **fields):
    return Order("cpu", folder=tmp_path / "images", **fields)


def test_a_machine_without_a_builder_is_told_what_to_install(machine, capsys):
    assert main(["build", "cpu"]) == 1
    error = capsys.readouterr().err
    assert "podman is not installed; buildah is not installed" in error
    assert "apt-get install podman" in error


def test_the_client_of_docker_alone_is_no_builder(machine):
    machine("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(UserError, match="docker is installed, but no engine answers it"):
        find()
    machine("buildah", "exit 0")
    assert isinstance(find(), Buildah)
    machine("podman", "exit 0")
    assert isinstance(find(), Podman)
    machine("docker", "echo 28.1")
    assert isinstance(find(), Docker)


def test_a_base_that_cannot_be_pulled_is_made_of_debians_packages(machine, tmp_path):
    machine("podman", PODMAN)
    machine("mmdebstrap", MMDEBSTRAP)
    told = []
    built = build.build(Podman(), order(tmp_path), told.append)
    assert built.base == base.LOCAL
    assert any("cannot be pulled (Error: no such host)" in line for line in told)
    (made,) = [line for line in said(tmp_path) if line.startswith("mmdebstrap")]
    assert "etc/resolv.conf" in made, "the servers of names of this machine"
    assert any(f"--build-arg=BASE_IMAGE={base.LOCAL}" in line for line in said(tmp_path))
    build.build(Podman(), order(tmp_path), told.append)
    assert len([line for line in said(tmp_path) if line.startswith("mmdebstrap")]) == 1


def test_a_base_that_can_neither_be_pulled_nor_made_is_an_error(machine, tmp_path):
    machine("podman", PODMAN)
    with pytest.raises(UserError, match=r"mmdebstrap.* is not installed.* BASE=IMAGE"):
        build.build(Podman(), order(tmp_path), str)


def test_a_base_that_is_named_is_taken_as_it_is(machine, tmp_path):
    machine("podman", PODMAN)
    named = order(tmp_path, base="registry.example/debian:12", arguments={"PIP_INDEX_URL": "x"})
    assert build.build(Podman(), named, str).base == "registry.example/debian:12"
    (built,) = [line for line in said(tmp_path) if line.startswith("podman build")]
    assert "--build-arg=BASE_IMAGE=registry.example/debian:12" in built
    assert "--build-arg=PIP_INDEX_URL=x" in built
    assert not [line for line in said(tmp_path) if "pull" in line]


def test_a_record_tells_a_cold_build_from_a_warm_one(machine, tmp_path, monkeypatch):
    machine("podman", PODMAN)
    given = order(tmp_path, base="debian")
    cold = build.build(Podman(), given, str)
    assert (cold.steps, cold.cached_steps) == (2, 0)
    assert cold.cold_seconds == cold.seconds
    assert cold.version == build_context(ROOT, "cpu").version
    monkeypatch.setenv("CACHED", "1")
    warm = build.build(Podman(), given, str)
    assert (warm.cached_steps, warm.cold_seconds) == (2, cold.seconds)
    record = given.beside / "build.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": "another"}))
    assert build.build(Podman(), given, str).cold_seconds is None


def test_what_is_inside_is_written_beside_what_was_built_anew(machine, tmp_path, monkeypatch):
    machine("podman", PODMAN)
    reader = tmp_path / "python"
    reader.write_text(
        '#!/bin/sh\necho "$*" >> "$SAID"\n[ -z "$BAD" ] || { echo bad >&2; exit 1; }\n'
    )
    reader.chmod(0o755)
    monkeypatch.setattr(build, "SBOM", reader)
    given = order(tmp_path, base="debian")

    def read():
        return [line for line in said(tmp_path) if "environments.sbom" in line]

    build.build(Podman(), given, str)
    (line,) = read()
    assert f"/root of {given.name} --to {given.beside} --name trainer-cpu:latest" in line
    assert f"podman image unmount {given.name}" in said(tmp_path)
    build.build(Podman(), given, str)
    assert len(read()) == 1
    monkeypatch.setenv("ID", "another")
    monkeypatch.setenv("BAD", "1")
    with pytest.raises(UserError, match="no bill of materials: bad"):
        build.build(Podman(), given, str)
    monkeypatch.delenv("BAD")
    build.build(Podman(), given, str)
    assert len(read()) == 3, "what failed is done again"


@pytest.mark.parametrize("kind", [Podman, Docker])
def test_who_is_not_root_reads_an_image_that_was_exported(kind, machine, tmp_path, monkeypatch):
    (tmp_path / "files" / "etc").mkdir(parents=True)
    (tmp_path / "files" / "etc" / "os-release").write_text("Debian")
    monkeypatch.setenv("FILES", str(tmp_path / "files"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine(
        kind.program,
        'echo "$*" >> "$SAID"; case $1 in'
        ' create) echo one ;; export) tar -c -C "$FILES" . ;; image) exit 125 ;; esac',
    )
    with kind().root("an-image") as root:
        assert (root / "etc" / "os-release").read_text() == "Debian"
    assert not root.exists()
    assert said(tmp_path)[0] == "create an-image true"
    assert said(tmp_path)[-1].startswith("rm --force")
    assert said(tmp_path)[-1].endswith(" one")


def test_buildah_is_for_root_alone(machine, monkeypatch):
    machine("buildah", "exit 0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UserError, match="buildah serves root alone"):
        find()


def test_a_fresh_build_asks_for_the_newest_base(machine, tmp_path):
    machine("podman", PODMAN)
    machine("mmdebstrap", MMDEBSTRAP)
    for fresh in (False, False, True):
        build.build(Podman(), order(tmp_path, fresh=fresh), str)
    asked = [line for line in said(tmp_path) if "pull" in line]
    made = [line for line in said(tmp_path) if line.startswith("mmdebstrap")]
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
    found = Docker.step.match(line)
    assert (found and found[1]) == step


def test_a_failed_build_shows_its_end_and_where_the_rest_is(machine, tmp_path, monkeypatch):
    machine("podman", PODMAN)
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(UserError, match="status 7") as caught:
        build.build(Podman(), order(tmp_path, base="debian"), str)
    assert "gcc: out of luck" in str(caught.value)
    log = Path(re.search(r"in (\S+build\.log)", str(caught.value))[1])
    assert "RUN compile" in log.read_text()


def test_a_build_that_was_stopped_is_none_whatever_its_status(machine, tmp_path, monkeypatch):
    machine("podman", PODMAN)
    monkeypatch.setenv("STOPPED", "1")
    given = order(tmp_path, base="debian")
    with pytest.raises(UserError, match="interrupted; give the command again"):
        build.build(Podman(), given, str)
    assert not build.record(given).exists()


def test_an_image_beyond_its_budget_is_refused(machine, tmp_path, monkeypatch):
    machine("podman", PODMAN)
    monkeypatch.setenv("SIZE", str(build.BUDGET["cpu"] + 1))
    with pytest.raises(UserError, match=r"more than its 2\.20"):
        build.build(Podman(), order(tmp_path, base="debian"), str)


@pytest.mark.parametrize("kind", [Docker, Podman, Buildah])
def test_no_value_of_a_variable_is_on_a_command_line(kind, machine, monkeypatch):
    machine("podman", "exit 0")
    monkeypatch.setenv("TOKEN", "secret-value")
    mounts = [Mount(Path("/code"), "/code"), Mount(Path("/out"), "/out", writable=True)]
    container = Container("image", ["python", "x.py"], "name", mounts, ["TOKEN"])
    as_user = replace(container, user="1000:1000")
    assert "--user=1000:1000" in kind().run_command(as_user)
    command = kind().run_command(container)
    assert not [word for word in command if word.startswith("--user")]
    assert "--env=TOKEN" in command
    assert "secret-value" not in " ".join(command)
    assert {"--volume=/code:/code:ro", "--volume=/out:/out"} <= set(command)
    assert command[-2:] == ["python", "x.py"]


@pytest.mark.parametrize("kind", [Docker, Podman, Buildah])
def test_a_fresh_build_takes_nothing_from_earlier_ones(kind):
    def command(**fields):
        return kind().build_command(Recipe(Path("/context"), **fields), "name")

    assert "--no-cache" in command(fresh=True)
    assert "--no-cache" not in command()
    assert "--target=build" in command(target="build")
    assert command()[-1] == "/context"


def test_authorities_of_this_machine_are_of_the_build_alone(monkeypatch, tmp_path):
    bundle = tmp_path / "authorities.crt"
    bundle.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    command = Podman().build_command(Recipe(Path("/context")), "name")
    assert f"--volume={bundle}:/etc/ssl/certs/ca-certificates.crt:ro" in command


def test_podman_gets_modest_settings_where_it_does_not_run_without(machine, monkeypatch):
    machine("podman", PODMAN)
    container = Container("image", ["true"], "name")
    assert Podman().run_command(container)[:2] == [
        "env",
        f"CONTAINERS_CONF={ROOT / 'common' / 'containers.conf'}",
    ]
    monkeypatch.setenv("CONTAINERS_CONF", "/mine")
    assert Podman().run_command(container)[0] == "podman"
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(UserError, match="cannot at all"):
        Podman().run_command(container)


@pytest.mark.parametrize("image", ["cpu", "gpu"])
def test_the_base_is_an_argument_of_the_build(image):
    text = (ROOT / "environments" / image / "Dockerfile").read_text()
    assert base.declared(text).endswith("debian:bookworm-slim")
    with pytest.raises(UserError, match="ARG BASE_IMAGE"):
        base.declared("FROM scratch\n")


def test_the_gpu_image_can_be_tried_with_a_stand_in_for_nvidias(machine, tmp_path):
    machine("podman", PODMAN)
    wanted = Order("gpu", "debian", {"PIP_INDEX_URL": "x"}, folder=tmp_path / "images")
    order = stand_in.order(Podman(), wanted, str)
    built = build.build(Podman(), order, str)
    first, second = [line for line in said(tmp_path) if line.startswith("podman build")]
    assert "--build-arg=BASE_IMAGE=debian" in first
    assert first.endswith(f"--tag={stand_in.COMPILER} {stand_in.FOLDER}")
    assert f"--build-arg=BUILD_IMAGE={stand_in.COMPILER}" in second
    assert "--build-arg=PIP_INDEX_URL=x" in second
    assert built.name == "localhost/trainer-gpu:stand-in", "never taken for the one of jobs"
    assert order.beside != wanted.beside


def test_a_stand_in_that_cannot_be_made_shows_why(machine, tmp_path, monkeypatch, capsys):
    machine("podman", PODMAN)
    monkeypatch.setenv("BROKEN", "1")
    assert main(["build", "gpu", "--stand-in", "--base", "debian"]) == 1
    assert "gcc: out of luck" in capsys.readouterr().err
    assert len([line for line in said(tmp_path) if line.startswith("podman build")]) == 1


def test_the_image_for_processors_has_nothing_to_stand_in_for(machine, tmp_path, capsys):
    machine("podman", PODMAN)
    assert main(["build", "cpu", "--stand-in", "--base", "debian"]) == 1
    assert "trainer-cpu: has nothing of CUDA" in capsys.readouterr().err
    assert not said(tmp_path)


def test_the_stand_in_has_what_is_copied_of_nvidias_image():
    copied = re.search(r"--from=cuda (\S+)", (ROOT / "environments/gpu/Dockerfile").read_text())[1]
    text = (stand_in.FOLDER / "Dockerfile").read_text()
    assert set(re.findall(r"/usr/local/cuda[^/\s]*", text)) == {copied}
