"""Data sets that several tests read and none changes."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded data set, prepared once."""
    from trainer.data.digits import prepare_digits

    folder = tmp_path_factory.mktemp("data") / "digits"
    prepare_digits(str(folder))
    return folder
