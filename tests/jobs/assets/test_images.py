from dataclasses import replace

import pytest

from jobs.assets import images
from jobs.azure.workspace import connect
from jobs.errors import AccessError, SnapshotError
from jobs.spec.build_context import build_context
from tests import ROOT
from tests.jobs.support.live import sdk
from tests.jobs.support.runs import blobs


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "environments" / "gpu"
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(f"FROM scratch\n# {tmp_path}\n")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "gpu.txt").write_text("horovod==0.28.1\n")
    return tmp_path


def uploaded(live, reference):
    return blobs(live, f"results/environments/{reference.replace(':', '/')}")


def ensure(live, repository, image="gpu"):
    workspace = connect(live.outputs)
    return images.ensure(workspace.manager, workspace.storage, build_context(repository, image))


def test_an_image_is_uploaded_and_registered_by_its_content(live, repository):
    reference = ensure(live, repository)
    assert reference == build_context(repository, "gpu").reference
    assert sorted(uploaded(live, reference)) == ["Dockerfile", "requirements.txt"]
    found = sdk(live).environments.get(*reference.split(":"))
    results = live.outputs.datastores.results
    folder = reference.replace(":", "/")
    address = f"{results.blob_endpoint}{results.container}/environments/{folder}/"
    assert found.build.path == address
    assert found.build.dockerfile_path == "Dockerfile"


def test_a_stack_without_a_build_cluster_registers_what_was_pushed(live, repository):
    pushed = replace(live.outputs, identities=replace(live.outputs.identities, build=None))
    workspace, context = connect(pushed), build_context(repository, "gpu")
    registry = workspace.image_registry
    assert registry == live.outputs.registry_login_server
    reference = images.ensure(workspace.manager, workspace.storage, context, registry=registry)
    found = sdk(live).environments.get(*reference.split(":"))
    assert found.image == f"{registry}/{reference}"
    assert not uploaded(live, reference)
    assert connect(live.outputs).image_registry is None


def test_what_is_registered_is_not_uploaded_again(live, repository):
    reference = ensure(live, repository)
    before = uploaded(live, reference)
    live.azure.admin.forget_requests()
    (repository / "environments" / "gpu" / "README.md").write_text("A note.")
    assert ensure(live, repository) == reference
    assert uploaded(live, reference) == before
    assert {
        request.method for request in live.azure.requests if "environments" in request.path
    } == {"GET"}


def test_a_changed_lock_is_another_version(live, repository):
    before = ensure(live, repository)
    (repository / "locks" / "gpu.txt").write_text("horovod==0.28.2\n")
    after = ensure(live, repository)
    assert after != before
    assert uploaded(live, before)
    assert uploaded(live, after)


def test_an_upload_that_was_interrupted_is_completed(live, repository):
    context = build_context(repository, "gpu")
    storage = connect(live.outputs).storage
    images.upload(storage, replace(context, contents={"Dockerfile": b"half"}))
    reference = ensure(live, repository)
    sizes = {name: blob.size for name, blob in uploaded(live, reference).items()}
    assert sizes == {name: len(content) for name, content in context.contents.items()}


def test_a_missing_dockerfile_is_told(live, repository):
    (repository / "environments" / "gpu" / "Dockerfile").unlink()
    with pytest.raises(SnapshotError, match="Dockerfile: is missing"):
        ensure(live, repository)


def test_without_the_role_it_says_which_one(live, repository):
    live.azure.admin.fault(
        "PUT /[^/]+/results/environments", status=403, code="AuthorizationPermissionMismatch"
    )
    with pytest.raises(AccessError, match=r"Storage Blob Data Contributor.*people\.scientists"):
        ensure(live, repository)


@pytest.mark.parametrize("image", ["gpu", "cpu"])
def test_the_projects_own_images_can_be_registered(live, image):
    reference = ensure(live, ROOT, image)
    assert reference.startswith(f"trainer-{image}:")
    assert {"Dockerfile", "requirements.txt"} <= set(uploaded(live, reference))
