"""From a folder of images to a registered model on a private stack, as the page has it.

The network is a tiny one, as the nodes of the simulator have no GPUs: its options replace those of
the page's command line.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from rehearsal.pulumi.deployment import SUBSCRIPTION, Deployment
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.rehearsal.scenarios.cloud import GROUPS, OPTIONS
from tests.rehearsal.support.newcomer import Newcomer, blocks

pytestmark = pytest.mark.rehearse_all

PAGE = "first-training-on-azure.md"
SCIENTISTS = "0d6b1f6e-0000-4000-8000-000000000031"
BEFORE = f"""
mkdir -p $HOME/pulumi-state
pulumi login file://$HOME/pulumi-state
pulumi stack init dev
make configure STACK=dev
pulumi config set --stack dev --path people.scientists {SCIENTISTS}
pulumi config set --stack dev --path people.publishers {SCIENTISTS}
pulumi config set --stack dev --path budget.start $(date +%Y-%m-01)
make up STACK=dev YES=1
"""
"""The page's prerequisites: a private stack, and a group of scientists who publish as well."""
TINY = (
    "--model.depth 18 --model.width 4 --model.image-size 16 --compute.precision float32"
    " --compute.xla False --exchange.infiniband False --epochs 2 --batch-size 2 --data.streams 4"
    " --data.shuffle-window 10 --restarts 0 --optimizer.warmup-epochs 1"
)
NO_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": ""}


def write_photos(folder):
    """Write 40 images of two classes."""
    generator = np.random.default_rng(0)
    for number in range(40):
        path = folder / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (24, 32, 3), np.uint8)).save(path)


def test_each_command_of_the_page_works_in_its_order(tmp_path):
    with (
        Simulator(tmp_path / "azure", replace(OPTIONS, roles=True)) as azure,
        Deployment(azure, tmp_path / "engine") as engine,
    ):
        account = {"id": SUBSCRIPTION, "tenantId": azure.options.tenant_id}
        answers = {f"az account show --query {k} --output tsv": v for k, v in account.items()}
        newcomer = Newcomer(tmp_path, engine, answers)
        (newcomer.clone / ".venv-trainer").symlink_to((ROOT / ".venv-trainer").resolve())
        azure.identity.join(azure.environment["AZURE_CLIENT_ID"], SCIENTISTS)
        newcomer.run(BEFORE, **NO_PASSPHRASE)
        write_photos(newcomer.clone / "photos")
        prepare, *others = blocks(PAGE, "own images") + blocks(PAGE, "first training: delete")
        newcomer.run(prepare)
        manifest = newcomer.clone / "data" / "photos" / "manifest.json"
        version = json.loads(manifest.read_text())["version"]
        typed = "".join(others).replace("photos:VERSION", f"photos:{version}")
        assert typed.count("--batch-size 32") == 3
        typed = typed.replace('ARGS="--batch-size 32"', f'ARGS="{TINY}"')
        typed = typed.replace("-- --batch-size 32", "-- --batch-size 2")
        said = newcomer.run(typed, **NO_PASSPHRASE)
        for part in (
            f"photos:{version}",
            "photos-1-r1: training completed",
            "top-1",
            "photos:",
            "registered",
        ):
            assert part in said
        run = newcomer.clone / "runs" / "photos-1"
        assert (run / "report.html").is_file()
        assert json.loads((run / "result.json").read_text())["examples"] > 0
        assert azure.resources.of_kind(GROUPS) == []
