"""One Azure for all tests of the rehearsal, with one small platform in it."""

import shutil

import pytest

from rehearsal.pulumi.deployment import BUILT
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import CLUSTER, OPTIONS, Client, declare
from tests.requests_sent import judged_requests, noted_requests

__all__ = ["azure", "client", "judged_requests", "noted_requests", "results"]


def pytest_collection_modifyitems(items):
    """Skip what needs Pulumi's engine where there is none; one that is too old is an error."""
    if shutil.which("pulumi") or shutil.which("pulumi", path=str(BUILT)):
        return
    reason = f"needs Pulumi's engine, on the path or in {BUILT} (`make -C tools engine`)"
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        if markers & {"rehearse_all", "engine"} and "without_engine" not in markers:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def azure(tmp_path_factory):
    with Simulator(tmp_path_factory.mktemp("azure"), OPTIONS) as azure:
        declare(azure)
        yield azure


@pytest.fixture
def client(azure):
    azure.admin.clear_faults()
    azure.admin.capacity(CLUSTER, None)
    yield Client(azure)
    azure.admin.clear_faults()


@pytest.fixture
def results(azure):
    """The container of the datastore `results`."""
    return azure.blobs.container("teststore", "results")
