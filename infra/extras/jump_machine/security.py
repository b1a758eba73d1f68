"""Rules on the jump machine: closed, hardened, with an Entra sign-in, off at night; and facts for
the other rules about it.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

from infra.extras.jump_machine.leaf import (
    BASTION,
    MACHINE,
    SCHEDULE,
    AccessSettings,
    SubnetSettings,
    has_bastion,
)
from infra.resources import texts_at
from infra.rules.facts import Allowed, Facts, Grants, Traffic
from infra.rules.invariants import in_subnet
from infra.rules.network import BASTION as BASTION_KIND
from infra.rules.rule import Expected, Rule, named
from infra.settings import Settings

INTERFACE_KIND: Final = "network:NetworkInterface"
MACHINE_KIND: Final = "compute:VirtualMachine"
EXTENSION_KIND: Final = "compute:VirtualMachineExtension"
SCHEDULE_KIND: Final = "devtestlab:GlobalSchedule"


REVIEWED_SETUPS: Final = frozenset(
    {
        "bf5b2f1f932695ab85ca706447bf34d508abf47e46ff4a4e41f8d1e113fa44e9",
        "b828325a3cd8d563ddb54d1f067f4055491ad8b22b378848e75a914d7c31173b",
    }
)
"""SHA-256 of the cloud-init configurations that were read before they may run as root: with a
repository and without, whose address and revision are those of the settings."""


def _set_up(settings: Settings) -> Expected:
    access = settings.of(AccessSettings)

    def is_reviewed(custom_data: object) -> bool:
        text = base64.b64decode(str(custom_data)).decode(errors="replace")
        if access.repository is not None:
            text = text.replace(f" {access.repository} ", " REPOSITORY ")
            text = text.replace(
                f" checkout --quiet {access.revision}\\n", " checkout --quiet REVISION\\n"
            )
        return hashlib.sha256(text.encode()).hexdigest() in REVIEWED_SETUPS

    return Expected("a set-up that was reviewed", is_reviewed)


HARDENED = Rule(
    "jump-machine-hardened",
    "The jump machine has no public address, no password and no account of its own, has the size "
    "of the settings and sets itself up as they say, is encrypted on its host, and starts only "
    "signed code (trusted launch); Bastion hands out no links and opens no other addresses.",
    "Restore the input: a change replaces the machine, and people sign in with Entra ID, through "
    "Bastion.",
    {
        INTERFACE_KIND: {"enableIPForwarding": False},
        MACHINE_KIND: {
            "hardwareProfile.vmSize": lambda s: s.of(AccessSettings).size,
            "osProfile.linuxConfiguration.disablePasswordAuthentication": True,
            "osProfile.linuxConfiguration.ssh.publicKeys[].keyData": (
                lambda s: s.of(AccessSettings).public_key
            ),
            "osProfile.customData": _set_up,
            "identity.type": "SystemAssigned",
            "securityProfile.encryptionAtHost": True,
            "securityProfile.securityType": "TrustedLaunch",
            "securityProfile.uefiSettings.secureBootEnabled": True,
            "securityProfile.uefiSettings.vTpmEnabled": True,
        },
        EXTENSION_KIND: {
            "publisher": "Microsoft.Azure.ActiveDirectory",
            "type": "AADSSHLoginForLinux",
        },
        BASTION_KIND: {
            "enableIpConnect": False,
            "enableShareableLink": False,
            "enableFileCopy": False,
        },
    },
)


def _of_machine(settings: Settings) -> Expected:
    return Expected("that of the jump machine", lambda id_: named(id_, *_machine(settings)))


def _machine(settings: Settings) -> tuple[str, str]:
    return "Microsoft.Compute/virtualMachines", MACHINE(settings.names)


OFF_AT_NIGHT = Rule(
    "jump-machine-off-at-night",
    "No machine but that of the settings exists; a schedule turns it off every day at the time of "
    "the settings, and it has the extension for signing in with Entra ID.",
    "Restore the schedule or the extension, or remove the machine.",
    {
        MACHINE_KIND: {"vmName": lambda s: MACHINE(s.names)},
        EXTENSION_KIND: {"vmName": lambda s: MACHINE(s.names)},
        SCHEDULE_KIND: {
            "status": "Enabled",
            "dailyRecurrence.time": lambda s: s.of(AccessSettings).off_at,
            "timeZoneId": lambda s: s.of(AccessSettings).time_zone,
            "name": lambda s: SCHEDULE(s.names),
            "targetResourceId": _of_machine,
        },
    },
)

BASTION_RULES: Final = frozenset(
    {
        ("inbound", "gatewaymanager", "*", "443"),
        ("inbound", "azureloadbalancer", "*", "443"),
        ("inbound", "virtualnetwork", "virtualnetwork", "8080,5701"),
        ("outbound", "*", "virtualnetwork", "22,3389"),
        ("outbound", "*", "azurecloud", "443"),
        ("outbound", "virtualnetwork", "virtualnetwork", "8080,5701"),
        ("outbound", "*", "internet", "80"),
    }
)
"""Direction, source, destination and ports of what Azure demands for a Bastion (Azure Bastion,
"Configure NSG rules"), besides HTTPS from people's computers."""


def _bastion_rule(rule: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    """Yield the traffic that a rule on the subnet of a Bastion allows beyond Azure's demands."""
    allowed = sorted(settings.of(AccessSettings).bastion_allowed_addresses) or ["internet"]
    people = {("inbound", ",".join(allowed), "*", "443")}
    given = (
        str(rule.get("direction")).lower(),
        ",".join(sorted(texts_at(rule, "sourceAddressPrefix"))).lower(),
        ",".join(texts_at(rule, "destinationAddressPrefix")).lower(),
        ",".join(texts_at(rule, "destinationPortRange")),
    )
    if given not in BASTION_RULES | people:
        yield f"allows {' '.join(given)}, which a Bastion does not need"


def _remote(settings: Settings) -> Allowed:
    """Return who may open SSH or RDP to the machine."""
    spaces = settings.of(SubnetSettings).jump_access
    remote: Allowed = [(IPv4Network(space), frozenset({"22", "3389"})) for space in spaces]
    bastion = settings.address_plan.subnets.get("bastion")
    return remote + ([(bastion, frozenset({"22"}))] if bastion else [])


ON_MACHINE: Final[Grants] = {
    ("jump-machine", "Reader"): None,
    ("jump-machine", "Desktop Virtualization Power On Contributor"): None,
    ("jump-interface", "Reader"): None,
    ("bastion", "Reader"): None,
}
SUBNET: Final = "ipConfigurations[].subnet.id"


def _counts(settings: Settings) -> dict[str, int]:
    machines, bastions = settings.of(AccessSettings).jump_machine, has_bastion(settings)
    parts = (MACHINE_KIND, INTERFACE_KIND, EXTENSION_KIND, SCHEDULE_KIND)
    return {
        **dict.fromkeys(parts, int(machines)),
        **dict.fromkeys((BASTION_KIND, "network:PublicIPAddress"), int(bastions)),
    }


FACTS = Facts(
    rules=(HARDENED, OFF_AT_NIGHT),
    tables={
        "nodes-in-their-subnet": {
            INTERFACE_KIND: {SUBNET: in_subnet("jump")},
            BASTION_KIND: {SUBNET: in_subnet("bastion")},
        }
    },
    counts=_counts,
    services=lambda settings: {
        "jump-machine": _machine(settings),
        "jump-interface": (
            "Microsoft.Network/networkInterfaces",
            settings.names.network_interface("jump"),
        ),
        "bastion": ("Microsoft.Network/bastionHosts", BASTION(settings.names)),
    },
    people=lambda settings: {
        "jump-users": settings.of(AccessSettings).users,
        "jump-administrators": settings.of(AccessSettings).administrators,
    },
    grants=lambda _: {
        "jump-users": {**ON_MACHINE, ("jump-machine", "Virtual Machine User Login"): None},
        "jump-administrators": {
            **ON_MACHINE,
            ("jump-machine", "Virtual Machine Administrator Login"): None,
        },
    },
    traffic={
        "jump": Traffic(_remote, internet=frozenset({"80", "443"})),
        "bastion": Traffic(faults=_bastion_rule),
    },
)
