"""Container engines, with stand-ins for Docker, Podman and Buildah."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.containers import MODEST, Buildah, Container, Docker, Mount, Podman, find_engine
from common.errors import UserError
from tests.common.support.engines import PODMAN


def test_the_client_of_docker_alone_is_no_engine(machine):
    machine.install("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(UserError, match="docker is installed, but its daemon does not respond"):
        find_engine()


def test_docker_comes_before_podman_and_podman_before_buildah(machine, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    machine.install("buildah", "exit 0")
    assert isinstance(find_engine(), Buildah)
    machine.install("podman", "exit 0")
    assert isinstance(find_engine(), Podman)
    machine.install("docker", "echo 28.1")
    assert isinstance(find_engine(), Docker)


def test_buildah_is_for_root_alone(machine, monkeypatch):
    machine.install("buildah", "exit 0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UserError, match="buildah requires root"):
        find_engine()


@pytest.mark.parametrize("kind", [Docker, Podman, Buildah])
def test_no_value_of_a_variable_is_on_a_command_line(kind, machine, monkeypatch):
    machine.install("podman", "exit 0")
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


def test_podman_gets_modest_settings_where_it_does_not_run_without(machine, monkeypatch):
    machine.install("podman", PODMAN)
    container = Container("image", ["true"], "name")
    assert MODEST.is_file()
    assert Podman().run_command(container)[:2] == ["env", f"CONTAINERS_CONF={MODEST}"]
    monkeypatch.setenv("CONTAINERS_CONF", "/mine")
    assert Podman().run_command(container)[0] == "podman"
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(UserError, match="cannot at all"):
        Podman().run_command(container)


def test_podman_kills_a_container_without_asking_it_first(machine):
    machine.install("podman", PODMAN)
    Podman().remove_container("name")
    assert machine.said() == ["podman rm --force --time=0 --volumes name"]
