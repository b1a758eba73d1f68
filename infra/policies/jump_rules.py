"""Rules on the jump machine: closed, hardened, with an Entra sign-in, and off at night."""

from collections.abc import Iterator, Sequence
from typing import Final

from infra.catalog import cloud_init
from infra.policies.expected import UNSET, as_set, exactly, table_rule, violated
from infra.policies.rule import StackRule, named
from infra.resources import (
    BASTION,
    EXTENSION,
    INTERFACE,
    MACHINE,
    SCHEDULE,
    Resource,
    input_at,
    of_kind,
)
from infra.settings import Settings

OFF, ON = exactly(value=False), exactly(value=True)
MACHINES: Final = "Microsoft.Compute/virtualMachines"

ENTRA_ONLY = table_rule(
    "jump-machine-entra-only",
    "The jump machine has no public address, no password and no account of its own, and sets "
    "itself up as the settings say; Bastion hands out no links and opens no other addresses.",
    "Restore the input; people sign in with Entra ID, through Bastion.",
    {
        INTERFACE: {
            "ipConfigurations[].publicIPAddress": UNSET,
            "enableIPForwarding": OFF,
        },
        MACHINE: {
            "osProfile.adminPassword": UNSET,
            "osProfile.linuxConfiguration.disablePasswordAuthentication": ON,
            "osProfile.linuxConfiguration.ssh.publicKeys[].keyData": as_set(
                lambda settings: settings.access.public_key
            ),
            "osProfile.customData": as_set(
                lambda settings: cloud_init.encoded(
                    settings.access.repository, settings.access.revision
                )
            ),
            "userData": UNSET,
            "identity.type": exactly("SystemAssigned"),
            "identity.userAssignedIdentities": UNSET,
        },
        EXTENSION: {
            "publisher": exactly("Microsoft.Azure.ActiveDirectory"),
            "type": exactly("AADSSHLoginForLinux"),
            "settings": UNSET,
            "protectedSettings": UNSET,
        },
        BASTION: {
            "sku.name": exactly("Standard"),
            "enableTunneling": ON,
            "enableIpConnect": OFF,
            "enableShareableLink": OFF,
            "enableFileCopy": OFF,
            "enableKerberos": OFF,
        },
    },
)

HARDENED = table_rule(
    "jump-machine-hardened",
    "The jump machine has the size of the settings, is encrypted on its host, and starts only "
    "signed code (trusted launch).",
    "Set it when the machine is created: a change replaces it.",
    {
        MACHINE: {
            "hardwareProfile.vmSize": as_set(lambda settings: settings.access.size),
            "securityProfile.encryptionAtHost": ON,
            "securityProfile.securityType": exactly("TrustedLaunch"),
            "securityProfile.uefiSettings.secureBootEnabled": ON,
            "securityProfile.uefiSettings.vTpmEnabled": ON,
            "storageProfile.imageReference.publisher": exactly("Debian"),
            "storageProfile.imageReference.offer": exactly("debian-12"),
            "storageProfile.imageReference.sku": exactly("12-gen2"),
            "storageProfile.osDisk.deleteOption": exactly("Delete"),
        },
    },
)

SCHEDULE_INPUTS = {
    "status": exactly("Enabled"),
    "taskType": exactly("ComputeVmShutdownTask"),
    "dailyRecurrence.time": as_set(lambda settings: settings.access.off_at),
    "timeZoneId": as_set(lambda settings: settings.access.time_zone),
    "name": as_set(lambda settings: settings.names.shutdown_schedule),
}


def _complete(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    schedules = of_kind(resources, SCHEDULE)
    for machine in of_kind(resources, MACHINE):
        name = str(input_at(machine, "vmName"))
        if not settings.access.jump_machine or name != settings.names.jump_machine:
            yield machine, "is a machine that the stack's settings do not name"
        if not any(input_at(one, "vmName") == name for one in of_kind(resources, EXTENSION)):
            yield machine, "has no extension for signing in with Entra ID"
        if not any(named(input_at(one, "targetResourceId"), MACHINES, name) for one in schedules):
            yield machine, "is not turned off by a schedule"
    for schedule in schedules:
        for path, expected in SCHEDULE_INPUTS.items():
            for fault in violated(schedule, path, expected, settings):
                yield schedule, fault


OFF_AT_NIGHT = StackRule(
    "jump-machine-off-at-night",
    "No machine but the jump machine of the settings exists; a schedule turns it off every day at "
    "the time of the settings, and it has the extension for signing in with Entra ID.",
    "Restore the schedule or the extension, or remove the machine.",
    _complete,
    {SCHEDULE: SCHEDULE_INPUTS},
)

RULES = (ENTRA_ONLY, HARDENED, OFF_AT_NIGHT)
