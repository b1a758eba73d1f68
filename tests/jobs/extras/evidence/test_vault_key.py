"""Statements signed by a key of Key Vault, which the simulator holds."""

import time
from dataclasses import replace

import pytest

from common.errors import ConfigError
from rehearsal.options import Options
from rehearsal.resources.vaults import CRYPTO_USER, VAULT
from rehearsal.simulator import Simulator
from tests.trainer.extras.evidence.keys import write_keys
from trainer.extras.evidence.chain import Verified, check_chain
from trainer.extras.evidence.signing import PublicKey
from trainer.extras.evidence.statements import Chain

pytest.importorskip("azure.keyvault.keys", reason="needs the packages of locks/infra.txt")
vault = pytest.importorskip("trainer.extras.evidence.vault")

ARM = "2023-07-01"
GROUP = "/subscriptions/10000000-0000-4000-8000-000000000001/resourceGroups/keys"
HOLDER = "3f7b9d1e-6a55-4f0e-9d4e-6f2f6a1f0c11"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    options = replace(Options(), roles=True)
    with Simulator(tmp_path_factory.mktemp("azure"), options) as azure:
        group = GROUP
        azure.put(group, ARM, {"location": "westeurope"})
        holder = f"{group}/providers/{VAULT}/signers"
        properties = {"sku": {"family": "A", "name": "standard"}, "tenantId": options.tenant_id}
        azure.put(holder, ARM, {"location": "westeurope", "properties": properties})
        azure.put(f"{holder}/keys/runs", ARM, {"properties": {"kty": "EC", "curveName": "P-256"}})
        azure.identity.add_client(HOLDER)
        role = f"/subscriptions/x/providers/Microsoft.Authorization/roleDefinitions/{CRYPTO_USER}"
        assignment = f"{holder}/keys/runs/providers/Microsoft.Authorization/roleAssignments/one"
        azure.put(assignment, ARM, {"properties": {
            "principalId": HOLDER, "roleDefinitionId": role}})  # fmt: skip
        yield azure


def sign_in(azure, monkeypatch, principal):
    """Act as a job whose node has this managed identity."""
    for name, value in azure.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("MSI_ENDPOINT", f"{azure.url}/msi/token")
    monkeypatch.setenv("MSI_SECRET", azure.identity.token(principal, azure.url))
    return f"{azure.url}/keys/runs"


def verified(folder, key=None):
    found = Verified(folder)
    check_chain(found, key)
    return [str(one) for one in found.broken], [str(one) for one in found.findings]


def test_a_key_of_the_vault_signs_and_its_public_half_verifies_offline(
    azure, tmp_path, monkeypatch
):
    key = vault.VaultKey(sign_in(azure, monkeypatch, HOLDER))
    chain = Chain(tmp_path, key)
    for number in range(3):
        facts = {
            "attempt": 1, "step": 0, "configuration": {}, "data": {}, "code": {}, "packages": {},
            "continues": None, "signer": chain.signer, "time": time.time(),
        }  # fmt: skip
        chain.append("start", {"config.json": f"{number}"}, facts)
    monkeypatch.setenv("MSI_SECRET", "not needed any more")
    assert key.address.startswith(f"{azure.url}/keys/runs/")
    assert verified(tmp_path)[0] == []
    assert verified(tmp_path, PublicKey(key.public.encode()))[0] == []
    write_keys(tmp_path, "other", elliptic=True)
    broken, _ = verified(tmp_path, PublicKey(tmp_path / "other.pub.pem"))
    assert len(broken) == 3
    assert all(f"is signed by key {key.key_id[:16]}" in one for one in broken)
    # Another content under the signature of the last one.
    file = tmp_path / "evidence" / chain.statements[-1].file
    forged = file.read_text().replace('"sig": "', '"sig": "MEUC')
    file.write_text(forged)
    assert "its signature is forged" in verified(tmp_path)[0][0]


def test_an_identity_without_a_role_is_refused_before_the_first_step(azure, monkeypatch):
    address = sign_in(azure, monkeypatch, "11111111-0000-4000-8000-000000000000")
    with pytest.raises(ConfigError, match=r"cannot be read .*not authorized"):
        vault.VaultKey(address)


def test_a_key_that_is_not_there_is_refused(azure, monkeypatch):
    sign_in(azure, monkeypatch, HOLDER)
    with pytest.raises(ConfigError, match=r"other cannot be read .*was not found"):
        vault.VaultKey(f"{azure.url}/keys/other")
