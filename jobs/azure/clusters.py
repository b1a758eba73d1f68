"""Cores that a subscription may use in a region, and whether they suffice. Pure.

Azure ML counts its own: all low-priority cores of a region in one pool, dedicated ones by family of
sizes (Azure Machine Learning, "Manage and increase quotas").
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_POOL: Final = "totallowpriority"


@dataclass(frozen=True)
class Size:
    """A size of virtual machines."""

    name: str
    family: str
    """Such as standardNDSv2Family."""
    cores: int


@dataclass(frozen=True)
class Quota:
    """One limit of cores."""

    name: str
    used: int
    limit: int
    """-1 if there is none."""

    def left(self, own: int) -> int | None:
        """Cores for a cluster that already uses `own` of them; none for any number."""
        return None if self.limit < 0 else max(self.limit - self.used, 0) + own


def read_sizes(data: Any) -> dict[str, Size]:
    """Sizes by name in lower case, of Azure's list of them for a region."""
    if isinstance(data, Mapping):
        data = data.get("value") or data.get("amlCompute") or []
    found = {}
    for one in data:
        size = Size(str(one["name"]), str(one.get("family") or ""), int(one.get("vCPUs") or 0))
        found[size.name.lower()] = size
    return found


def find_quota(usages: Iterable[Mapping[str, Any]], priority: str, family: str) -> Quota | None:
    """The limit that nodes of a size count against; none if Azure lists none.

    Args:
        usages: Azure's list for the region.
        priority: of the nodes.
        family: of their size.
    """
    wanted = _POOL if priority == "LowPriority" else _plain(family)
    for usage in usages:
        name = usage.get("name") or {}
        value, shown = str(name.get("value") or ""), str(name.get("localizedValue") or "")
        if wanted and wanted in (_plain(value), _plain(shown)):
            return Quota(shown or value, int(usage["currentValue"]), int(usage["limit"]))
    return None


def missing(
    quota: Quota | None, size: Size, nodes: int, allocated: int, priority: str
) -> list[str]:
    """What keeps so many nodes from being allocated; empty if nothing does that Azure tells.

    Args:
        quota: what they count against.
        size: of a node.
        nodes: wanted.
        allocated: that the cluster has already.
        priority: of the nodes.
    """
    need = nodes * size.cores
    pool = "low-priority" if priority == "LowPriority" else size.family
    if quota is None:
        return [
            f"the region has no {pool} cores for this subscription, {need} are needed; ask"
            " for them in the portal under Quotas, Machine Learning"
        ]
    left = quota.left(allocated * size.cores)
    if left is None or left >= need:
        return []
    return [
        f"{nodes} x {size.name} need {need} {pool} cores, {left} of {quota.limit} are left;"
        f" at most {left // size.cores} nodes fit, more need a request in the portal under Quotas,"
        " Machine Learning"
    ]


def _plain(text: str) -> str:
    """A name of a family without what its two spellings differ in."""
    words = re.sub(r"cluster|dedicated|vcpus|regional|[^a-z0-9]", "", text.lower())
    return words.removesuffix("cores")
