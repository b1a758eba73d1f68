"""Every version of Azure's APIs that the product sends, and none that Azure is about to end."""

import ast
import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Final, NamedTuple

from rehearsal.control_plane.arm_path import parse
from tests import ROOT
from tools.conformance.sent import declared, recorded

QUARTER: Final = dt.timedelta(days=91)


class End(NamedTuple):
    """An end of old versions that Azure has announced."""

    provider: str
    day: date
    first_left: str
    """Oldest version that Azure serves afterwards."""
    source: str


ENDS: Final = (
    End("Microsoft.KeyVault", date(2027, 2, 27), "2026-02-01", "Azure/azure-powershell 30098"),
)
"""The only announced end that concerns a provider below; look for others when this list fails."""

WRITTEN: Final[Mapping[str, Mapping[str, str]]] = {
    "infra/checks/needs.py": {
        "2021-04-01": "Microsoft.Resources",
        "2022-10-01": "Microsoft.OperationalInsights",
        "2023-05-01": "Microsoft.Storage",
        "2023-07-01": "Microsoft.ContainerRegistry",
        "2024-05-01": "Microsoft.Network",
        "2024-06-01": "Microsoft.Network",
        "2026-02-01": "Microsoft.KeyVault",
    },
    "infra/extras/customer_keys/leaf.py": {
        "2023-01-31": "Microsoft.ManagedIdentity",
        "2026-02-01": "Microsoft.KeyVault",
    },
    "infra/extras/jump_machine/leaf.py": {"2021-07-01": "Microsoft.Features"},
    "infra/render/roles.py": {"2022-04-01": "Microsoft.Authorization"},
    "infra/extras/replicas/leaf.py": {"2023-07-01": "Microsoft.ContainerRegistry"},
    "jobs/azure/resource_manager.py": {"2024-10-01": "Microsoft.MachineLearningServices"},
    "jobs/extras/pipelines/declaration.py": {
        "2021-04-01": "Microsoft.Resources",
        "2022-04-01": "Microsoft.Authorization",
        "2023-01-31": "Microsoft.ManagedIdentity",
        "2023-05-01": "Microsoft.Storage",
        "2026-02-01": "Microsoft.KeyVault",
    },
    "jobs/pulumi/existing.py": {
        "2024-05-01": "Microsoft.Network",
        "2024-06-01": "Microsoft.Network",
    },
    "jobs/pulumi/leftover_resources.py": {
        "2021-04-01": "Microsoft.Resources",
        "2026-02-01": "Microsoft.KeyVault",
    },
    "jobs/pulumi/prerequisites.py": {
        "2022-12-01": "Microsoft.Resources",
        "2023-05-01": "Microsoft.Storage",
        "2023-07-01": "Microsoft.ContainerRegistry",
        "2026-02-01": "Microsoft.KeyVault",
    },
    "jobs/pulumi/teardown_steps.py": {"2021-05-01-preview": "Microsoft.Insights"},
    "jobs/extras/serving/endpoints.py": {"2021-04-01": "Microsoft.Resources"},
    "jobs/extras/serving/monitoring.py": {
        "2018-03-01": "Microsoft.Insights",
        "2021-05-01-preview": "Microsoft.Insights",
        "2022-10-01": "Microsoft.Insights",
    },
}
"""Versions in the code, with their providers, by file."""
NO_VERSIONS: Final = {"infra/catalog/vm_sizes.py"}
"""Files whose texts of this form are days."""

Sent = tuple[str, str, str]
"""Provider, version, and what sends it."""


def written() -> dict[str, set[str]]:
    """The versions in the code of the product, by file."""
    version = re.compile(r"(?:^|.*api-version=)(20\d\d-\d\d-\d\d(?:-preview)?)(?:$|\W)", re.DOTALL)
    found: dict[str, set[str]] = {}
    for folder in ("common", "infra", "jobs", "serving"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    match = version.match(node.value)
                    if match and name not in NO_VERSIONS:
                        found.setdefault(name, set()).add(match[1])
    return found


def sent() -> Iterator[Sent]:
    """The versions that the product sends: of its code, its recorded requests and its stacks."""
    for file, versions in WRITTEN.items():
        yield from ((provider, version, file) for version, provider in versions.items())
    for one in recorded():
        if one.path.rstrip("/") != "/subscriptions":
            provider = parse(one.path).kind.partition("/")[0]
            yield provider, one.api_version, "tools/conformance/requests.json"
    for type_, put in declared("everything"):
        provider = parse(put.path).kind.partition("/")[0]
        yield provider, put.api_version, f"azure-native's {type_.token}"


def ending(found: Iterable[Sent], ends: Iterable[End], today: date) -> list[str]:
    """What to do about versions that Azure ends within a quarter."""
    return sorted(
        f"{provider} {version} ({where}) ends on {end.day} ({end.source}): send {end.first_left} or"
        " a newer one; for a type of azure-native take a provider whose default it is, or pin the"
        " version as infra/components/key_vault.py does"
        for provider, version, where in set(found)
        for end in ends
        if provider == end.provider and version < end.first_left and today >= end.day - QUARTER
    )


def test_every_version_in_the_code_is_named_with_its_provider():
    assert {file: set(versions) for file, versions in WRITTEN.items()} == written()


def test_no_version_that_is_sent_ends_within_a_quarter():
    assert ending(sent(), ENDS, dt.datetime.now(dt.UTC).date()) == []


def test_none_of_them_ends_even_after_the_announced_days():
    assert ending(sent(), ENDS, max(end.day for end in ENDS)) == []


def test_an_old_version_fails_a_quarter_before_its_end_and_says_what_to_do():
    old = [("Microsoft.KeyVault", "2024-11-01", "x.py"), ("Microsoft.Storage", "2019-01-01", "x")]
    assert ending(old, ENDS, date(2026, 11, 27)) == []
    [text] = ending(old, ENDS, date(2026, 11, 28))
    assert text.startswith("Microsoft.KeyVault 2024-11-01 (x.py) ends on 2027-02-27")
    assert "send 2026-02-01" in text


def test_the_stacks_and_the_requests_are_among_what_is_sent():
    found = {(provider, where.partition(" ")[0]) for provider, _, where in sent()}
    assert ("Microsoft.KeyVault", "azure-native's") in found
    assert ("Microsoft.KeyVault", "tools/conformance/requests.json") in found
    assert ("Microsoft.Network", "azure-native's") in found
