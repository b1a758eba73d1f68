"""The table of runs by number of images, on the page about own images, is that of the code."""

import json
import re

import pytest

from jobs.cli import main
from tests import ROOT
from trainer.presets import parse_train

TEXT = (ROOT / "docs" / "first-training-on-azure.md").read_text(encoding="utf-8")
TABLE = TEXT.split("<!-- sizes -->\n")[1].split("<!-- sizes end -->")[0]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TABLE.splitlines()[2:]]
GPUS = 8
HELD_OUT = 0.1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_run_has_the_batch_the_rate_and_the_hours_of_the_page(row, tmp_path, capsys):
    images, options, batch, rate, nodes, hours = row
    training = int(images.replace(",", "")) * (1 - HELD_OUT)
    given = re.search(r'ARGS="([^"]*)"', options)
    config = parse_train(["--preset", "images-224-node", *(given[1].split() if given else [])])
    ranks = GPUS * int(nodes)
    assert f"NODES={nodes}" in options
    assert int(batch.replace(",", "")) == config.batch_size * ranks
    assert float(rate) == pytest.approx(
        config.optimizer.learning_rate * config.batch_size * ranks / 256
    )
    # The largest batch of a GPU, up to the preset's 64, with which an epoch has 8 steps.
    fitting = [size for size in (8, 16, 32, 64) if size * ranks * 8 <= training]
    assert config.batch_size == max(fitting, default=8)
    arguments = [
        "--pixels",
        "0.2",
        "--images",
        str(int(training)),
        "--gigabytes",
        str(max(training * 1.1e-4, 0.1)),
    ]
    page = str(tmp_path / "plan.html")
    words = ["plan", "--preset", "images-224-node", *arguments, "--nodes", nodes]
    assert main([*words, "--page", page, "--json", "--", *(given[1].split() if given else [])]) == 0
    estimated = next(
        choice["hours"]
        for choice in json.loads(capsys.readouterr().out)["choices"]
        if (choice["size"], choice["priority"]) == ("Standard_ND40rs_v2", "LowPriority")
    )
    if estimated is None:
        assert hours == "?"
        return
    low, _, high = estimated
    assert 0.75 * low <= float(hours) <= 1.25 * high
