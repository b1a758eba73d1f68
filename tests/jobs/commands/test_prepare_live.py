"""A job turns a local folder of raw images into a registered data set."""

import json

import numpy as np
import pytest
from PIL import Image

from jobs.cli import main


@pytest.fixture
def photos(tmp_path):
    """Create raw images: a folder for each of two classes."""
    generator = np.random.default_rng(0)
    for number in range(20):
        folder = tmp_path / "photos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (12, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
    return tmp_path / "photos"


def test_raw_images_become_a_registered_data_set_that_a_training_can_read(
    live, outputs, capsys, photos
):
    assert main(["upload", str(photos), "--to", "raw/creatures"]) == 0
    folders = ["--raw", "creatures", "--prepared", "creatures"]
    prepare = ["prepare", "folder", *folders, "--poll-seconds", "0.2"]
    assert main([*prepare, "--name", "shards-of-it", "--no-follow", "--", "--held-out", "0.2"]) == 0
    assert "is registered once `follow` sees the job complete" in capsys.readouterr().out
    assert main(["follow", "shards-of-it", "--poll-seconds", "0.2", "--json"]) == 0
    reference = json.loads(capsys.readouterr().out)["asset"]
    name, version = reference.split(":")
    registered = live.azure.resources.get(f"{live.workspace}/data/{name}/versions/{version}")
    store = outputs.datastores.prepared.name
    uri = registered["properties"]["dataUri"]
    assert uri.rstrip("/").endswith(f"/datastores/{store}/paths/creatures")
    dry = ["submit", "--preset", "images", "--data.asset", reference, "--dry-run"]
    assert main([*dry, "--", "--batch-size", "1"]) == 0
    said = capsys.readouterr().out
    assert "16 training images, 2 classes" in said
