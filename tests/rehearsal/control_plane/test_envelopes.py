"""A resource shows a state and an author only where its kind has them in Azure."""

import pytest

from rehearsal.control_plane.envelopes import shown

OWN = {"id": "/x", "name": "x"}


@pytest.mark.parametrize(
    ("kind", "state", "author"),
    [
        ("Microsoft.MachineLearningServices/workspaces", True, True),
        ("Microsoft.MachineLearningServices/workspaces/datastores", False, True),
        ("Microsoft.Authorization/roleDefinitions", False, False),
        ("Microsoft.ManagedIdentity/userAssignedIdentities", False, True),
        ("Microsoft.Network/virtualNetworks", True, False),
        ("microsoft.storage/storageaccounts/blobservices/containers", False, False),
        ("Microsoft.Storage/storageAccounts", True, False),
    ],
)
def test_a_kind_shows_what_it_has(kind, state, author):
    stored = {
        **OWN,
        "type": kind,
        "properties": {"provisioningState": "Succeeded", "own": 1},
        "systemData": {"createdBy": "platform"},
    }
    seen = shown(stored)
    assert ("provisioningState" in seen["properties"]) == state
    assert ("systemData" in seen) == author
    assert seen["properties"]["own"] == stored["properties"]["own"] == 1
    assert "systemData" in stored
