"""An Azure that holds nothing, and the development stack that is deployed to it."""

import pytest

from rehearsal.options import Options
from rehearsal.pulumi.deployment import Deployment
from rehearsal.simulator import Simulator


@pytest.fixture(scope="module")
def empty_azure(tmp_path_factory):
    with Simulator(tmp_path_factory.mktemp("azure"), Options()) as azure:
        yield azure


@pytest.fixture(scope="module")
def deployment(empty_azure, tmp_path_factory):
    """The development stack, not yet deployed."""
    with Deployment(empty_azure, tmp_path_factory.mktemp("pulumi")) as deployment:
        yield deployment
