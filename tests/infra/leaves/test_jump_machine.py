"""The jump machine: closed, set up by cloud-init, off at night."""

import base64
import hashlib
import json
import re
import subprocess
from dataclasses import replace

import pytest

from infra.catalog import roles
from infra.catalog.network_rules import Surroundings
from infra.extras.jump_machine import cloud_init, network_rules
from infra.extras.jump_machine.leaf import AccessSettings
from infra.extras.jump_machine.security import EXTENSION_KIND as EXTENSION
from infra.extras.jump_machine.security import INTERFACE_KIND as INTERFACE
from infra.extras.jump_machine.security import MACHINE_KIND as MACHINE
from infra.extras.jump_machine.security import SCHEDULE_KIND as SCHEDULE
from infra.outputs import from_dict
from infra.policies import pack
from infra.resources import ASSIGNMENT, of_kind
from infra.rules.network import BASTION
from tests import ROOT
from tests.infra.support.stacks import only, ran, rendered, settings_of
from tests.infra.support.variants import OPTIONS

JUMP = OPTIONS["jump machine for scientists, set up"]


def config(machine):
    text = base64.b64decode(machine.inputs["osProfile"]["customData"]).decode()
    head, _, body = text.partition("\n")
    assert head == "#cloud-config"
    return json.loads(body)


def test_a_set_up_that_was_not_reviewed_may_not_run_as_root(monkeypatch):
    settings, stack = settings_of("dev", **JUMP), rendered("dev", **JUMP)
    assert pack.check(stack, settings) == []
    monkeypatch.setattr(cloud_init, "_SCRIPT", f"{cloud_init._SCRIPT}echo more\n")
    access, machine = settings.of(AccessSettings), only(stack, MACHINE)
    profile = {
        **machine.inputs["osProfile"],
        "customData": cloud_init.encoded(access.repository, access.revision),
    }
    changed = replace(machine, inputs={**machine.inputs, "osProfile": profile})
    [violation] = pack.check([changed if one is machine else one for one in stack], settings)
    assert violation.rule == "jump-machine-hardened"
    assert "a set-up that was reviewed" in violation.message


def test_nothing_of_it_is_declared_unless_it_is_asked_for():
    resources = rendered("dev")
    assert of_kind(resources, MACHINE, BASTION, INTERFACE, SCHEDULE, EXTENSION) == []
    assert from_dict(ran("dev").platform).jump_machine is None


def test_it_has_no_public_address_and_sits_in_its_own_subnet():
    [interface] = of_kind(rendered("dev", **JUMP), INTERFACE)
    [address] = interface.inputs["ipConfigurations"]
    assert "publicIPAddress" not in address
    assert address["subnet"]["id"].endswith("/subnets/snet-jump")


def test_nobody_gets_an_account_but_by_signing_in_with_entra():
    resources = rendered("dev", **JUMP)
    machine = only(resources, MACHINE)
    assert config(machine)["users"] == []
    assert config(machine)["ssh_pwauth"] is False
    assert machine.inputs["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"]
    assert machine.inputs["identity"] == {"type": "SystemAssigned"}
    assert only(resources, EXTENSION).inputs["type"] == "AADSSHLoginForLinux"


def test_a_schedule_turns_it_off_at_the_time_of_the_settings():
    resources = rendered("dev", **JUMP)
    schedule = only(resources, SCHEDULE).inputs
    assert schedule["name"] == "shutdown-computevm-hvd-dev-jump"
    assert schedule["targetResourceId"] == only(resources, MACHINE).id
    assert (schedule["dailyRecurrence"], schedule["timeZoneId"]) == (
        {"time": "2130"},
        "W. Europe Standard Time",
    )


def test_people_may_sign_in_start_it_and_see_the_way_to_it():
    given = {
        (one.name.partition("-jump-")[0], roles.NAMES[one.inputs["roleDefinitionId"][-36:]])
        for one in of_kind(rendered("dev", **JUMP), ASSIGNMENT)
        if one.inputs["principalId"] == JUMP["access.users"] and one.name.startswith("jump-")
    }
    assert {role for _, role in given} == {
        "Reader",
        "Virtual Machine User Login",
        "Desktop Virtualization Power On Contributor",
    }


def test_a_hubs_bastion_is_used_and_not_declared():
    option = OPTIONS["jump machine behind a hub's Bastion"]
    assert of_kind(rendered("dev", **option), BASTION) == []
    outputs = from_dict(ran("dev", **option).platform)
    assert outputs.jump_machine is not None
    assert outputs.jump_machine.bastion == option["access.existing_bastion"]
    assert outputs.jump_machine.name == "hvd-dev-jump"
    assert outputs.jump_machine.off_at == "19:00 UTC"


def test_the_setup_is_a_shell_script_that_fetches_from_the_listed_hosts_only(tmp_path):
    url = "https://github.com/example/ml-azure-horovod.git"
    text = cloud_init.script(url, "v2.0")
    script = tmp_path / "setup"
    script.write_text(text)
    subprocess.run(["sh", "-n", str(script)], check=True)
    hosts = set(re.findall(r"https?://([^/\s\"]+)", text))
    assert hosts <= set(cloud_init.HOSTS)
    assert f"git clone --quiet {url} /opt/platform" in text
    assert "make -C /opt/platform setup-platform" in text


FAKES = {
    # The file that an address ends in, from the folder of downloads.
    "curl": 'for address; do :; done; cp "$DOWNLOADS/${address##*/}" .',
    "tar": 'echo "tar $*" >> "$CALLS"',
    "gpg": 'echo "gpg $*" >> "$CALLS"',
    "apt-get": 'echo "apt-get $*" >> "$CALLS"',
}


@pytest.fixture
def set_up(tmp_path, monkeypatch):
    """A function that runs the setup on downloads, and returns its status and its calls."""
    archive = f"pulumi-v{cloud_init.PULUMI_VERSION}-linux-x64.tar.gz"
    downloads, calls, programs = (tmp_path / name for name in ("downloads", "calls", "bin"))
    downloads.mkdir()
    programs.mkdir()
    for name, lines in FAKES.items():
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n")
        (programs / name).chmod(0o755)
    good = {"microsoft.asc": b"the key", archive: b"the archive"}
    listed = f"{hashlib.sha256(good[archive]).hexdigest()}  {archive}\n0000  another.tar.gz\n"
    good[f"pulumi-{cloud_init.PULUMI_VERSION}-checksums.txt"] = listed.encode()
    monkeypatch.setattr(cloud_init, "MICROSOFT_KEY", hashlib.sha256(b"the key").hexdigest())

    def run(**tampered):
        for name, content in (
            good | {good_name(name): new for name, new in tampered.items()}
        ).items():
            (downloads / name).write_bytes(content)
        calls.write_text("")
        text = cloud_init.script(None, "main").replace("/etc/apt", str(tmp_path))
        (tmp_path / "sources.list.d").mkdir(exist_ok=True)
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "DOWNLOADS": str(downloads),
                       "CALLS": str(calls)}  # fmt: skip
        ended = subprocess.run(["sh", "-c", text], env=environment, check=False)
        return ended.returncode, calls.read_text()

    def good_name(word):
        return next(name for name in good if word in name)

    return run


def test_the_setup_installs_what_has_the_expected_sha_256(set_up):
    status, calls = set_up()
    assert status == 0
    assert [line.split()[0] for line in calls.splitlines()] == ["gpg", "apt-get", "apt-get", "tar"]


def test_a_download_with_another_sha_256_ends_the_setup_before_it_is_used(set_up):
    status, calls = set_up(microsoft=b"another key")
    assert (status != 0, calls) == (True, "")
    for tampered in ({"tar": b"another archive"}, {"checksums": b"0000  another.tar.gz\n"}):
        status, calls = set_up(**tampered)
        assert status != 0
        assert "tar" not in calls


def test_the_machine_has_what_the_setup_of_the_repository_asks_for():
    asked = re.findall(r"apt install ([^;\"]+)", (ROOT / "scripts" / "check-machine").read_text())
    wanted = set(" ".join(asked).replace("python$version", "python3").split())
    assert {"g++", "make", "python3-dev"} <= wanted <= set(cloud_init.PACKAGES)


def test_without_a_repository_it_installs_the_tools_alone():
    text = cloud_init.script(None, "main")
    assert "git clone" not in text
    assert "azure-cli" in text
    assert "pulumi" in text


def test_bastion_has_the_rules_that_azure_demands_and_the_machine_accepts_ssh_from_it_alone():
    rules = network_rules.bastion(())
    allowed = {
        (rule.direction, rule.sources, rule.destinations, rule.ports)
        for rule in rules
        if rule.access == "Allow"
    }
    network = ("VirtualNetwork",)
    assert allowed == {
        ("Inbound", ("Internet",), ("*",), ("443",)),
        ("Inbound", ("GatewayManager",), ("*",), ("443",)),
        ("Inbound", ("AzureLoadBalancer",), ("*",), ("443",)),
        ("Inbound", network, network, ("8080", "5701")),
        ("Outbound", ("*",), network, ("22", "3389")),
        ("Outbound", ("*",), ("AzureCloud",), ("443",)),
        ("Outbound", network, network, ("8080", "5701")),
        ("Outbound", ("*",), ("Internet",), ("80",)),
    }
    assert network_rules.bastion(("203.0.113.0/24",))[0].sources == ("203.0.113.0/24",)
    own, bastion = "10.0.3.0/28", "10.1.4.0/26"
    into = [
        (rule.sources, rule.ports)
        for rule in network_rules.jump(Surroundings(own, ("10.0.1.0/27",)), (), (bastion,))
        if (rule.direction, rule.access) == ("Inbound", "Allow")
    ]
    assert into == [((own,), ("*",)), ((bastion,), ("22",))]
