"""The image under test, and its measurements."""

import pytest

from common.errors import UserError
from environments.build import Order
from environments.builders import find_builder
from tests.images.image import Image

MEASURED = pytest.StashKey[dict[str, str]]()


def pytest_configure(config):
    config.stash[MEASURED] = {}


@pytest.fixture(scope="session")
def measured(pytestconfig):
    """Measurements in the summary: values by name."""
    return pytestconfig.stash[MEASURED]


@pytest.fixture(scope="session")
def builder():
    try:
        return find_builder()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def image(builder, tmp_path_factory):
    name = Order("cpu").name
    if not builder.engine.has(name):
        pytest.skip(f"{name} does not exist; `make -C tools images` builds it")
    return Image(builder, name, tmp_path_factory.mktemp("work"))


def pytest_terminal_summary(terminalreporter, config):
    measured = config.stash[MEASURED]
    if not measured:
        return
    terminalreporter.section("the CPU image")
    width = max(map(len, measured))
    for what, value in measured.items():
        terminalreporter.write_line(f"{what:<{width}}  {value}")
