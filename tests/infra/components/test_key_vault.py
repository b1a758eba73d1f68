"""The version of Key Vault's API, which outlives the end of older ones."""

import pytest

from infra.render.mocks import Monitor
from infra.render.render import run
from tests.infra.support.stacks import file_of
from tests.infra.support.variants import KEYS


@pytest.fixture
def aliases(monkeypatch):
    """Types by which a deployed resource is known, by the type that the program registers."""
    found = {}
    register = Monitor.RegisterResource

    def noted(self, request):
        found[request.type] = [one.spec.type for one in request.aliases]
        return register(self, request)

    monkeypatch.setattr(Monitor, "RegisterResource", noted)
    run("dev", KEYS, file_of("dev"))
    return found


@pytest.mark.parametrize("kind", ["Vault", "Key"])
def test_vault_and_key_are_declared_by_a_version_that_stays_and_are_not_replaced(aliases, kind):
    known = aliases[f"azure-native:keyvault/v20260201:{kind}"]
    assert {f"azure-native:keyvault:{kind}", f"azure-native:keyvault/v20230201:{kind}"} <= {*known}
    assert not [one for one in aliases if one == f"azure-native:keyvault:{kind}"]
