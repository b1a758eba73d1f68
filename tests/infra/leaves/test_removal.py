"""A leaf is removed by deleting its folder and its row: the rest declares a stack."""

import shutil
import subprocess
import sys

import pytest

from infra.leaves import ROWS
from tests import ROOT
from tests.infra.support.stacks import file_of

PROGRAM = """
import sys
from infra.leaves import LEAVES, SETTINGS
from infra.policies.pack import check
from infra.render.render import run
from infra.stack_config import configuration, with_subscription
from infra.validation import load

_, values = configuration("dev")
values = with_subscription(values)
values["budget"] = {k: v for k, v in values["budget"].items() if k in sys.argv[1:]}
settings = load(values | {"stack": "dev"})
assert settings.address_plan.subnets.keys() == {"training", "build", "endpoints"}
if not LEAVES:
    import pulumi, yaml, pathlib
    pathlib.Path("Pulumi.dev.yaml").write_text(yaml.safe_dump(
        {"config": {f"ml-azure-horovod:{key}": value for key, value in values.items()}}))
    ran = run("dev", {})
    assert ran.platform["jump_machine"] is None
    assert [one.message for one in check(ran.resources, settings)] == []
"""


@pytest.mark.parametrize("removed", [*((row,) for row in ROWS), ROWS], ids="+".join)
def test_what_is_left_declares_a_stack_within_its_rules(removed, tmp_path):
    for name in ("infra", "common"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copy(file_of("dev"), tmp_path / "Pulumi.dev.yaml")
    table = tmp_path / "infra" / "leaves.py"
    for row in removed:
        shutil.rmtree(tmp_path / "infra" / "extras" / row)
        table.write_text(table.read_text().replace(f'    "{row}",\n', ""))
    kept = ["emails"] if "budget" in removed else ["emails", "amount", "start"]
    subprocess.run([sys.executable, "-c", PROGRAM, *kept], cwd=tmp_path, check=True)
