"""Rules on the jump machine: closed, hardened, with an Entra sign-in, off at night; and facts for
the other rules about it.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
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
from infra.resources import Resource, input_at, of_kind, texts_at
from infra.rules.expected import OFF, ON, Expected, as_set, exactly
from infra.rules.facts import Allowed, Facts, Grants, Traffic
from infra.rules.invariants import in_subnet
from infra.rules.network import BASTION as BASTION_KIND
from infra.rules.rule import Faults, Rule, named
from infra.settings import Settings

INTERFACE_KIND: Final = "network:NetworkInterface"
MACHINE_KIND: Final = "compute:VirtualMachine"
EXTENSION_KIND: Final = "compute:VirtualMachineExtension"
SCHEDULE_KIND: Final = "devtestlab:GlobalSchedule"

MACHINES: Final = "Microsoft.Compute/virtualMachines"

REVIEWED_SETUPS: Final = frozenset(
    {
        "bf5b2f1f932695ab85ca706447bf34d508abf47e46ff4a4e41f8d1e113fa44e9",
        "b828325a3cd8d563ddb54d1f067f4055491ad8b22b378848e75a914d7c31173b",
    }
)
"""SHA-256 of the cloud-init configurations that were read before they may run as root: with a
repository and without, whose address and revision are those of the settings."""


def _reviewed(given: object, settings: Settings) -> bool:
    access = settings.of(AccessSettings)
    text = base64.b64decode(str(given)).decode(errors="replace")
    if access.repository is not None:
        text = text.replace(f" {access.repository} ", " REPOSITORY ")
        text = text.replace(
            f" checkout --quiet {access.revision}\\n", " checkout --quiet REVISION\\n"
        )
    return hashlib.sha256(text.encode()).hexdigest() in REVIEWED_SETUPS


SETS_ITSELF_UP: Final = Expected(lambda _: "a set-up that was reviewed", _reviewed)

ENTRA_ONLY = Rule(
    "jump-machine-entra-only",
    "The jump machine has no public address, no password and no account of its own, and sets "
    "itself up as the settings say; Bastion hands out no links and opens no other addresses.",
    "Restore the input; people sign in with Entra ID, through Bastion.",
    {
        INTERFACE_KIND: {"enableIPForwarding": OFF},
        MACHINE_KIND: {
            "osProfile.linuxConfiguration.disablePasswordAuthentication": ON,
            "osProfile.linuxConfiguration.ssh.publicKeys[].keyData": as_set(
                lambda settings: settings.of(AccessSettings).public_key
            ),
            "osProfile.customData": SETS_ITSELF_UP,
            "identity.type": exactly("SystemAssigned"),
        },
        EXTENSION_KIND: {
            "publisher": exactly("Microsoft.Azure.ActiveDirectory"),
            "type": exactly("AADSSHLoginForLinux"),
        },
        BASTION_KIND: {
            "enableIpConnect": OFF,
            "enableShareableLink": OFF,
            "enableFileCopy": OFF,
        },
    },
)

HARDENED = Rule(
    "jump-machine-hardened",
    "The jump machine has the size of the settings, is encrypted on its host, and starts only "
    "signed code (trusted launch).",
    "Set it when the machine is created: a change replaces it.",
    {
        MACHINE_KIND: {
            "hardwareProfile.vmSize": as_set(lambda settings: settings.of(AccessSettings).size),
            "securityProfile.encryptionAtHost": ON,
            "securityProfile.securityType": exactly("TrustedLaunch"),
            "securityProfile.uefiSettings.secureBootEnabled": ON,
            "securityProfile.uefiSettings.vTpmEnabled": ON,
        },
    },
)


def _complete(resources: Sequence[Resource], settings: Settings) -> Faults:
    schedules = of_kind(resources, SCHEDULE_KIND)
    for machine in of_kind(resources, MACHINE_KIND):
        name = str(input_at(machine, "vmName"))
        if not settings.of(AccessSettings).jump_machine or name != MACHINE(settings.names):
            yield machine, "is a machine that the stack's settings do not name"
        if not any(
            input_at(extension, "vmName") == name
            for extension in of_kind(resources, EXTENSION_KIND)
        ):
            yield machine, "has no extension for signing in with Entra ID"
        if not any(
            named(input_at(schedule, "targetResourceId"), MACHINES, name) for schedule in schedules
        ):
            yield machine, "is not turned off by a schedule"


OFF_AT_NIGHT = Rule(
    "jump-machine-off-at-night",
    "No machine but those of the settings exists; a schedule turns the jump machine off every "
    "day at the time of the settings, and it has the extension for signing in with Entra ID.",
    "Restore the schedule or the extension, or remove the machine.",
    {
        SCHEDULE_KIND: {
            "status": exactly("Enabled"),
            "dailyRecurrence.time": as_set(lambda settings: settings.of(AccessSettings).off_at),
            "timeZoneId": as_set(lambda settings: settings.of(AccessSettings).time_zone),
            "name": as_set(lambda settings: SCHEDULE(settings.names)),
        }
    },
    of_stack=_complete,
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
FACTS = Facts(
    rules=(ENTRA_ONLY, HARDENED, OFF_AT_NIGHT),
    tables={
        "nodes-in-their-subnet": {
            INTERFACE_KIND: {SUBNET: in_subnet("jump")},
            BASTION_KIND: {SUBNET: in_subnet("bastion")},
        }
    },
    counts=lambda settings: {
        **dict.fromkeys(
            (MACHINE_KIND, INTERFACE_KIND), int(settings.of(AccessSettings).jump_machine)
        ),
        **dict.fromkeys((BASTION_KIND, "network:PublicIPAddress"), int(has_bastion(settings))),
    },
    services=lambda settings: {
        "jump-machine": (MACHINES, MACHINE(settings.names)),
        "jump-interface": (
            "Microsoft.Network/networkInterfaces",
            settings.names.network_interface("jump"),
        ),
        "bastion": ("Microsoft.Network/bastionHosts", BASTION(settings.names)),
    },
    people={
        "jump-users": lambda settings: settings.of(AccessSettings).users,
        "jump-administrators": lambda settings: settings.of(AccessSettings).administrators,
    },
    grants={
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
