"""Paths of Resource Manager name a resource, a collection or an action."""

import pytest

from rehearsal.control_plane import arm_path
from rehearsal.errors import AzureError

GROUP = "/subscriptions/s/resourceGroups/g"
NET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/n"


@pytest.mark.parametrize(
    ("path", "kind", "parent", "tail"),
    [
        (GROUP, "Microsoft.Resources/resourceGroups", "/subscriptions/s", ""),
        (f"{GROUP}/resources", "Microsoft.Resources/resourceGroups", "/subscriptions/s",
         "resources"),
        (NET, "Microsoft.Network/virtualNetworks", GROUP, ""),
        (f"{NET}/subnets/a", "Microsoft.Network/virtualNetworks/subnets", NET, ""),
        (f"{NET}/subnets", "Microsoft.Network/virtualNetworks", GROUP, "subnets"),
        (f"{NET}/providers/Microsoft.Authorization/locks/l", "Microsoft.Authorization/locks", NET,
         ""),
        (f"{GROUP}/providers/Microsoft.Network/virtualNetworks", "Microsoft.Network", GROUP,
         "virtualNetworks"),
        ("/subscriptions/s", "Microsoft.Resources/subscriptions", "/subscriptions/s", ""),
    ],
)  # fmt: skip
def test_a_path_is_a_resource_a_collection_or_an_action(path, kind, parent, tail):
    parsed = arm_path.parse(path + "/")
    assert (parsed.kind, parsed.parent, parsed.tail) == (kind, parent, tail)


def test_a_path_outside_of_subscriptions_is_refused():
    with pytest.raises(AzureError, match="No resource"):
        arm_path.parse("/tenants/x")
