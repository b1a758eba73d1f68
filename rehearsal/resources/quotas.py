"""Cores and prices of VM sizes, and a subscription's quotas and usage."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request
from rehearsal.control_plane.resource_manager import ListResources, ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.resources.computes import COMPUTE, clusters, is_low_priority
from rehearsal.resources.workspaces import WORKSPACE, workspace_of

LOCATIONS = "Microsoft.MachineLearningServices/locations"
LOW_PRIORITY = "totalLowPriorityCores"
_SPACE = "quotas"
_SPOT = "spot"
"""Key of the price of Spot."""
_DEFAULT = 1_000
_SIZE = re.compile(r"Standard_([A-Z]+)(\d+)([a-z]*)(?:_(A100))?(?:_([vV]\d+))?")
_SIZES = ("Standard_ND40rs_v2", "Standard_NC24ads_A100_v4", "Standard_ND96amsr_A100_v4",
          "Standard_D4ads_v5", "Standard_D8ads_v5", "Standard_D16ads_v5", "Standard_D32ads_v5",
          "Standard_DS3_v2", "Standard_D4as_v4", "Standard_FX4mds", "Standard_A1_v2",
          "Standard_D1")  # fmt: skip
_CORE_PRICE = {"Spot": 0.01, "LowPriority": 0.01, "Standard": 0.05}
"""Price of a core for an hour by tier. Made up: only the form of the answer is Azure's. That of
Spot moves by `Quotas.price_spot`."""
_WINDOWS_FACTOR = 2
_UNPRICED = frozenset({"Standard_A1_v2", "Standard_D1"})
"""Sizes without prices, as many of Azure's."""
_TOTALS = {
    "totalClusters": "Total Clusters",
    "totalDedicatedCores": "Total Cluster Dedicated Regional vCPUs",
    LOW_PRIORITY: "Total Cluster Low Priority Regional vCPUs",
}
_DEDICATED = "vmFamily/dedicatedCores"
_SPOT_FAMILY = "vmFamily/lowPriorityCores"


def cores(size: str) -> int:
    """Return the cores of a VM size, which are part of its name."""
    match = _SIZE.match(size)
    return int(match[2]) if match else 1


def family(size: str) -> str:
    """Return the family of a VM size, such as standardNDSv2Family."""
    match = _SIZE.match(size)
    if match is None:
        return "standardOtherFamily"
    letters = match[1] + match[3].replace("r", "").upper() + (match[4] or "")
    return f"standard{letters}{(match[5] or '').lower()}Family"


@dataclass(frozen=True)
class Quotas:
    """Limits and usage of cores by region."""

    resources: ResourceManager
    nodes: Callable[[str], list[dict[str, Any]]]
    """Returns the nodes of a cluster by its id."""

    @property
    def lists(self) -> dict[str, ListResources]:
        """Return the computed lists of a region."""
        return {
            f"{LOCATIONS}/usages": self.usages,
            f"{LOCATIONS}/quotas": self.quotas,
            f"{LOCATIONS}/vmsizes": self.sizes,
            f"{WORKSPACE}/quotas": self.quotas,
        }

    def limit(self, location: str, name: str, cores: int) -> None:
        """Set a limit, such as of totalLowPriorityCores."""
        self.resources.store.put(_SPACE, f"{location}/{name}", {"limit": cores})

    def price_spot(self, core: float) -> None:
        """Set the price of a core of Spot for an hour, in USD."""
        if self.resources.store.get(_SPACE, _SPOT) != {"core": core}:
            self.resources.store.put(_SPACE, _SPOT, {"core": core})

    def refusal(self, cluster: Document) -> str | None:
        """Return why Azure refuses to create a cluster: the limit is below one node; None if it is
        not.
        """
        size = cluster["properties"]["properties"]["vmSize"]
        name = LOW_PRIORITY if is_low_priority(cluster) else family(size)
        limit = self._limit(str(cluster.get("location")), name)
        if limit >= cores(size):
            return None
        return (
            f"The specified subscription has a {_shown(name)} vCPU quota of {limit} and cannot"
            " accommodate for at least 1 requested managed compute node which maps to"
            f" {cores(size)} vCPUs."
        )

    def shortage(self, location: str, size: str, instances: int) -> str | None:
        """Return why Azure refuses the instances of a deployment: it holds back another fifth for
        updates ("Manage and increase quotas"); None if there is enough quota.
        """
        needed = math.ceil(cores(size) * instances * 1.2)
        limit = self._limit(location, family(size))
        if limit >= needed:
            return None
        return (
            f"Not enough quota available for {size} in SubscriptionId. Current usage/limit: 0/"
            f"{limit}. Additional needed: {needed}"
        )

    def usages(self, path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG002
        """Return each limit with the cores in use: of the subscription, and with the same name of
        each workspace and cluster that uses some of it.
        """
        subscription = f"/subscriptions/{path.subscription}"
        used = dict.fromkeys((LOW_PRIORITY, *map(family, _SIZES)), 0)
        shares: dict[str, dict[str, int]] = {}
        for cluster in clusters(self.resources, subscription):
            own = cluster["properties"]["properties"]
            name = LOW_PRIORITY if is_low_priority(cluster) else family(own["vmSize"])
            nodes = sum(node["nodeState"] != "preempted" for node in self.nodes(cluster["id"]))
            count = nodes * cores(own["vmSize"])
            used[name] = used.get(name, 0) + count
            if name != LOW_PRIORITY:
                for owner in (workspace_of(cluster["id"]), cluster["id"]):
                    share = shares.setdefault(owner, {})
                    share[name] = share.get(name, 0) + count
        all_computes = len(self.resources.of_kind(COMPUTE, subscription))
        spot = used.pop(LOW_PRIORITY)
        # Azure documents no order; those of workspaces come first here.
        return [
            *(
                self._usage(path.name, name, count, f"{owner}/usages/{name}", _kind(owner))
                for owner, share in shares.items()
                for name, count in share.items()
            ),
            self._usage(path.name, "totalClusters", all_computes, subscription, "totalClusters"),
            self._usage(
                path.name, "totalDedicatedCores", sum(used.values()), subscription,
                "totalDedicatedCores",
            ),
            *(
                self._usage(path.name, name, count, f"{subscription}/usages/{name}", _DEDICATED)
                for name, count in used.items()
            ),
            self._usage(path.name, LOW_PRIORITY, spot, subscription, LOW_PRIORITY),
            # Each family a second time, with the same name: Spot has no limit by family.
            *(
                self._usage(path.name, name, 0, f"{subscription}/usages/{name}", _SPOT_FAMILY)
                | {"limit": -1}
                for name in used
            ),
        ]  # fmt: skip

    def _usage(self, location: str, name: str, used: int, identifier: str, kind: str) -> Document:
        """Return a usage in the form of recorded ones."""
        return {
            "id": identifier,
            "type": f"Microsoft.MachineLearningServices/{kind}/usages",
            "unit": "Count",
            "currentValue": used,
            "limit": self._limit(location, name),
            "name": {
                "value": f"T{name[1:]}" if name.startswith("total") else name,
                "localizedValue": _shown(name),
            },
        }

    def quotas(self, path: ArmPath, request: Request) -> list[Document]:
        """Return the limits alone."""
        return [
            {name: usage[name] for name in ("id", "unit", "limit", "name")}
            | {"type": f"{LOCATIONS}/quotas"}
            for usage in self.usages(path, request)
            if "/workspaces/" not in usage["type"]
        ]

    def sizes(self, path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG002
        """Return the VM sizes of a region: some well-known ones and those of the clusters."""
        moved = self.resources.store.get(_SPACE, _SPOT) or {"core": _CORE_PRICE["Spot"]}
        core = {**_CORE_PRICE, "Spot": float(moved["core"])}
        known = {
            cluster["properties"]["properties"]["vmSize"] for cluster in clusters(self.resources)
        }
        return [
            {
                "name": size,
                "family": family(size),
                "vCPUs": cores(size),
                "gpus": 8 if size.startswith("Standard_ND") else 0,
                "osVhdSizeMB": 1047552,
                "maxResourceVolumeMB": 38_400 * cores(size),
                "memoryGB": 4.0 * cores(size),
                "lowPriorityCapable": True,
                "premiumIO": True,
                **({} if size in _UNPRICED else {"estimatedVMPrices": _prices(size, core)}),
                "supportedComputeTypes": ["AmlCompute", "ComputeInstance", "MIR"],
                "generation": "gen1",
                "supportsIB": size.startswith("Standard_ND"),
            }
            for size in sorted({*_SIZES, *known})
        ]

    def _limit(self, location: str, name: str) -> int:
        document = self.resources.store.get(_SPACE, f"{location}/{name}")
        return _DEFAULT if document is None else int(document["limit"])


def _kind(owner: str) -> str:
    return "workspaces/computes" if "/computes/" in owner else "workspaces"


def _prices(size: str, core: Mapping[str, float]) -> dict[str, Any]:
    """Return estimated prices in the form of Azure's REST definitions (EstimatedVMPrices)."""
    return {
        "billingCurrency": "USD",
        "unitOfMeasure": "OneHour",
        "values": [
            {
                "retailPrice": round(cores(size) * price * factor, 4),
                "osType": system,
                "vmTier": tier,
            }
            # Those of Windows come a second time, as if they were of Linux.
            for system, factor in (
                ("Linux", 1),
                ("Linux", _WINDOWS_FACTOR),
                ("Windows", _WINDOWS_FACTOR),
            )
            for tier, price in core.items()
        ],
    }


def _shown(name: str) -> str:
    if name in _TOTALS:
        return _TOTALS[name]
    inner = name.removeprefix("standard").removesuffix("Family")
    return f"Standard {inner} Family Cluster Dedicated vCPUs"
