"""An Azure that holds nothing, and the development stack that is deployed to it."""

import pytest

from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.pulumi.deployment import Deployment


@pytest.fixture(scope="module")
def empty_azure(tmp_path_factory):
    with Loopback(tmp_path_factory.mktemp("azure"), Options()) as azure:
        yield azure


@pytest.fixture(scope="module")
def deployment(empty_azure, tmp_path_factory):
    """The development stack, not yet deployed."""
    with Deployment(empty_azure, tmp_path_factory.mktemp("pulumi")) as deployment:
        yield deployment
