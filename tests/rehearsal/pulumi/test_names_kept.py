"""A stack that was deployed with other names, without its own provider, and with another version of
Key Vault's API, keeps all it has.
"""

import pytest

from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.pulumi.provider import types
from rehearsal.simulator import Simulator
from tests.rehearsal.support.engine import exported, ran

pytestmark = [pytest.mark.slow, pytest.mark.rehearse_all]

EARLIER = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
from infra.components import key_vault
from infra.composition import platform
from infra.naming import Names
from pulumi_azure_native import keyvault
key_vault.PinnedVault = keyvault.Vault
Names._global_hash = property(lambda names: names.hash())
platform._for_every_resource = lambda settings: lambda args: None
runpy.run_path({str(ROOT / "infra" / "__main__.py")!r}, run_name="__main__")
"""
"""The program as it was before its names took in the subscription, and its provider and the version
of the vault were pinned.
"""


def ids(deployment):
    """Ids of all Azure resources in the state, by URN without a version of an API."""
    return {
        resource["urn"].replace("/v20260201:", ":"): resource["id"]
        for resource in exported(deployment)["deployment"]["resources"]
        if resource["type"].startswith("azure-native:")
    }


def vaults(deployment):
    """Types of the vaults in the state."""
    declared = {one["type"] for one in exported(deployment)["deployment"]["resources"]}
    return {one for one in declared if one.endswith(":Vault") and "platform:" not in one}


def test_an_update_replaces_nothing_and_renames_nothing(tmp_path, monkeypatch):
    # No request by the earlier version is judged any more, so only the type is the earlier one.
    find = types.find
    pinned = "native:keyvault/v20260201:"
    monkeypatch.setattr(types, "find", lambda of: find(of.replace("native:keyvault:", pinned)))
    with Simulator(tmp_path / "azure", Options()) as azure, Deployment(azure, tmp_path) as stack:
        project = tmp_path / "project"
        (project / "infra").mkdir()
        (project / "infra" / "__main__.py").write_text(EARLIER)
        (project / ".venv").symlink_to(ROOT / ".venv")
        ran(stack, "up", "--yes", "--skip-preview", "--cwd", str(project))
        before = ids(stack)
        assert {"hvddevstdipcuiv", "hvddevdataipcuiv", "hvddevacripcuiv", "hvd-dev-kv-ipcuiv"} < {
            name.rpartition("/")[2] for name in before.values()
        }
        made = {one["id"] for one in azure.resources.below()}
        assert {"azure-native:keyvault:Vault"} == vaults(stack)
        output = ran(stack, "up", "--yes", "--skip-preview")
        assert "replaced" not in output
        assert "deleted" not in output
        assert ids(stack) == before
        assert {one["id"] for one in azure.resources.below()} == made
        assert {"azure-native:keyvault/v20260201:Vault"} == vaults(stack)
        providers = {
            resource["provider"].rpartition("::")[0].rpartition("::")[2]
            for resource in exported(stack)["deployment"]["resources"]
            if resource["type"].startswith("azure-native:")
        }
        assert providers == {"azure"}
        # Another seed names only what does not exist yet.
        stack.configure("name_seed", "2")
        output = ran(stack, "up", "--yes", "--skip-preview")
        assert "replaced" not in output
        assert "deleted" not in output
        assert ids(stack) == before
