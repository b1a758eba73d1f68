"""Paths, durations, references and sizes, without any server."""

import ast
import json
import re
import tempfile
import tomllib
from pathlib import Path

import pytest

from rehearsal import loopback
from rehearsal.control_plane import arm_path
from rehearsal.control_plane.azure_formats import duration_seconds
from rehearsal.control_plane.resource_manager import merged
from rehearsal.errors import AzureError
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.nodes import Nodes, ScaleSettings
from rehearsal.machine_learning.preemption_policy import seconds_until_preemption
from rehearsal.pulumi import deployment
from rehearsal.pulumi.provider import server
from rehearsal.resources import quotas

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
    found = arm_path.parse(path + "/")
    assert (found.kind, found.parent, found.tail) == (kind, parent, tail)


def test_a_path_outside_of_subscriptions_is_none_of_resource_managers():
    with pytest.raises(AzureError, match="No resource"):
        arm_path.parse("/tenants/x")


@pytest.mark.parametrize(
    ("text", "seconds"), [("PT6H", 21600), ("P7D", 604800), ("PT1H2M3.5S", 3723.5), ("PT0S", 0)]
)
def test_durations_are_those_of_iso_8601(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["6h", "PT5", "-PT5S", "PT", ""])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="no duration"):
        duration_seconds(text)


def test_references_become_paths_and_nothing_is_quoted():
    command = "run ${{inputs.data}} ${{ inputs.epochs }} '${{outputs.run}}' ${{inputs.other}} $HOME"
    inputs = {"data": Path("/in put"), "epochs": "90"}
    found = job_spec.command_line(command, inputs, {"run": Path("/out")})
    assert found == "run /in put 90 '/out' ${{inputs.other}} $HOME"


@pytest.mark.parametrize(
    ("command", "name"), [("python -m x", "python"), ("/bin/sh -c 'a", "sh"), ("", "bash")]
)
def test_a_failed_process_is_named_by_its_first_word(command, name):
    assert job_spec.program_name(command) == name


def test_sizes_tell_their_cores_and_family():
    assert quotas.cores("Standard_ND40rs_v2") == 40
    assert quotas.family("Standard_D16ads_v5") == "standardDSv5Family"


def test_a_change_merges_and_null_removes():
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(before, {"a": {"b": None, "e": 4}, "d": 5}) == {"a": {"c": 2, "e": 4}, "d": 5}
    assert before == {"a": {"b": 1, "c": 2}, "d": 3}


def states(nodes):
    return sorted(node["nodeState"] for node in nodes.show("c"))


def test_nodes_come_when_they_are_wanted_and_leave_when_they_are_idle():
    nodes, scale = (
        Nodes(),
        ScaleSettings(min_nodes=0, max_nodes=3, idle_seconds=0, allocation_seconds=0),
    )
    nodes.scale("c", scale, queued_nodes=2)
    assert states(nodes) == ["preparing", "preparing"]
    assert not nodes.assign("c", "/jobs/one", 2)
    nodes.scale("c", scale, queued_nodes=2)
    assert nodes.assign("c", "/jobs/one", 2)
    nodes.scale("c", scale, queued_nodes=5)
    assert states(nodes) == ["preparing", "running", "running"]
    nodes.scale("c", scale, queued_nodes=0)
    nodes.release("c", "/jobs/one")
    nodes.scale("c", scale, queued_nodes=0)
    assert states(nodes) == ["leaving"] * 3


def test_a_cluster_keeps_its_least_nodes_and_gets_no_more_than_there_are():
    nodes, scale = (
        Nodes(),
        ScaleSettings(min_nodes=1, max_nodes=3, idle_seconds=0, allocation_seconds=0),
    )
    nodes.limit("c", 2)
    nodes.scale("c", scale, queued_nodes=3)
    nodes.scale("c", scale, queued_nodes=3)
    assert states(nodes) == ["idle", "idle"]
    nodes.scale("c", scale, queued_nodes=0)
    assert states(nodes) == ["idle", "leaving"]


def test_nodes_that_were_taken_are_shown_as_such_and_are_no_ones():
    nodes, scale = (
        Nodes(),
        ScaleSettings(min_nodes=0, max_nodes=2, idle_seconds=60, allocation_seconds=0),
    )
    nodes.scale("c", scale, queued_nodes=1)
    nodes.scale("c", scale, queued_nodes=1)
    assert nodes.assign("c", "/jobs/one", 1)
    nodes.preempt("c", "/jobs/one")
    nodes.release("c", "/jobs/one")
    assert states(nodes) == ["preempted"]
    assert not nodes.assign("c", "/jobs/two", 1)


def imported(path):
    """Names of the packages that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return {name.split(".")[0] for name in names}


def test_the_rehearsal_knows_nothing_of_what_it_rehearses():
    folder = Path(loopback.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        worlds = {"infra", "jobs", "trainer", "tests", "pulumi_azure_native"}
        assert not imported(path) & worlds, path
        # Only what speaks the engine's protocol needs Pulumi's package, which has it.
        hosts = {"language_host.py", "policy_packs.py"}
        speaks = path.parent.name == "provider" or path.name in hosts
        assert speaks or "pulumi" not in imported(path), path


def test_engine_sdk_and_provider_are_of_the_same_versions():
    root = Path(loopback.__file__).parents[1]
    groups = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]
    pinned = dict(
        one.split("==") for one in groups["infra"] if isinstance(one, str) and "==" in one
    )
    engine = re.search(
        r"^\s*github.com/pulumi/pulumi/pkg/v3 v(\S+)",
        (root / "rehearsal" / "pulumi" / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert engine[1] == pinned["pulumi"]
    assert pinned["pulumi-azure-native"] == server.VERSION


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("v3.259.0\n", True),
        ("v3.300.1-dev.0", True),
        ("v3.258.9", False),
        ("v4.0.0", False),
        ("", False),
    ],
)
def test_engines_from_the_pinned_minor_on_are_taken(version, enough):
    assert deployment.is_new_enough(version) is enough


def test_no_proxy_is_asked_for_what_is_here():
    both = {"NO_PROXY", "no_proxy"}
    assert loopback.without_proxy({}) == dict.fromkeys(both, "127.0.0.1,localhost")
    theirs = loopback.without_proxy({"no_proxy": "intranet,127.0.0.1", "NO_PROXY": "other"})
    assert theirs == dict.fromkeys(both, "intranet,127.0.0.1,localhost")


def test_an_engine_is_asked_for_its_version_without_touching_anybodys_home(tmp_path, monkeypatch):
    engine = tmp_path / "pulumi"
    engine.write_text(f'#!/bin/sh\necho "$PULUMI_HOME" > {tmp_path}/home\necho v3.259.0\n')
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "theirs"))
    assert deployment.find_engine() == (engine, "v3.259.0")
    home = Path((tmp_path / "home").read_text().strip())
    assert home.is_relative_to(tempfile.gettempdir())
    assert home != tmp_path / "theirs"
    assert not home.exists()


def test_the_blob_server_is_locked_without_the_name_of_a_registry():
    folder = Path(loopback.__file__).parent / "azurite"
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = {name: found for name, found in lock["packages"].items() if name}
    assert all(found["integrity"] for found in packages.values())
    assert not any("resolved" in found for found in packages.values())
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    assert wanted == {"azurite": packages["node_modules/azurite"]["version"]}


def test_nodes_are_taken_by_a_chance_that_a_seed_repeats():
    lives = [seconds_until_preemption(7, f"job-{number}", 0, 2, 60.0) for number in range(2000)]
    assert lives == [
        seconds_until_preemption(7, f"job-{number}", 0, 2, 60.0) for number in range(2000)
    ]
    assert lives[0] != seconds_until_preemption(8, "job-0", 0, 2, 60.0)
    # A job that is started again is not taken at the same place for ever.
    assert lives[0] != seconds_until_preemption(7, "job-0", 1, 2, 60.0)
    # Two nodes that stay 60 s on average lose the first of them after 30 s on average.
    assert sum(lives) / len(lives) == pytest.approx(30.0, rel=0.1)
