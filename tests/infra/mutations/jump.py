"""The mutations of the jump machine and its Bastion; `table` has all others."""

from collections.abc import Mapping
from typing import Any, Final

from tests.infra.mutations.table import ELSEWHERE, FLIP, IDENTITY, SUBNET, Absent

OTHER_MACHINE: Final = f"{ELSEWHERE}/providers/Microsoft.Compute/virtualMachines/other"
OTHER_ADDRESS: Final = {"id": f"{ELSEWHERE}/providers/Microsoft.Network/publicIPAddresses/open"}

INPUTS: Final[Mapping[str, Mapping[str, Mapping[str, tuple[Any, ...]]]]] = {
    "compute:VirtualMachine": {
        "jump-machine-entra-only": {
            "osProfile.adminPassword": ("a-password",),
            "osProfile.linuxConfiguration.disablePasswordAuthentication": FLIP,
            "osProfile.linuxConfiguration.ssh.publicKeys[].keyData": ("ssh-ed25519 AAAA", Absent),
            "osProfile.customData": ("I2Nsb3VkLWNvbmZpZwo=", Absent),
            "userData": ("I2Nsb3VkLWNvbmZpZwo=",),
            "identity.type": ("UserAssigned", Absent),
            "identity.userAssignedIdentities": ([IDENTITY],),
        },
        "jump-machine-hardened": {
            "hardwareProfile.vmSize": ("Standard_D64as_v5", Absent),
            "securityProfile.encryptionAtHost": FLIP,
            "securityProfile.securityType": ("Standard", Absent),
            "securityProfile.uefiSettings.secureBootEnabled": FLIP,
            "securityProfile.uefiSettings.vTpmEnabled": FLIP,
            "storageProfile.imageReference.publisher": ("stranger",),
            "storageProfile.osDisk.deleteOption": ("Detach", Absent),
        },
        "jump-machine-off-at-night": {"vmName": ("other",)},
        "only-reviewed": {
            "storageProfile.dataDisks": ([{"lun": 0, "createOption": "Attach"}],),
            "networkProfile.networkInterfaceConfigurations": ([{"name": "open"}],),
        },
        "required-tags": {"tags": ({}, Absent)},
    },
    "compute:VirtualMachineExtension": {
        "jump-machine-entra-only": {
            "publisher": ("stranger", Absent),
            "type": ("CustomScript", Absent),
            "protectedSettings": ({"commandToExecute": "true"},),
        },
        "jump-machine-off-at-night": {"vmName": ("other",)},
    },
    "devtestlab:GlobalSchedule": {
        "jump-machine-off-at-night": {
            "status": ("Disabled", Absent),
            "taskType": ("ComputeVmStartTask", Absent),
            "dailyRecurrence.time": ("2359", Absent),
            "timeZoneId": ("Tonga Standard Time", Absent),
            "targetResourceId": (OTHER_MACHINE, Absent),
            "name": ("another-name",),
        },
    },
    "network:NetworkInterface": {
        "jump-machine-entra-only": {
            "ipConfigurations[].publicIPAddress": (OTHER_ADDRESS,),
            "enableIPForwarding": FLIP,
        },
        "nodes-in-their-subnet": {"ipConfigurations[].subnet": ({"id": SUBNET}, Absent)},
    },
    "network:BastionHost": {
        "jump-machine-entra-only": {
            "sku.name": ("Developer", "Basic", Absent),
            "enableTunneling": FLIP,
            "enableIpConnect": FLIP,
            "enableShareableLink": FLIP,
        },
        "no-public-address": {"ipConfigurations[].publicIPAddress": (OTHER_ADDRESS, Absent)},
        "nodes-in-their-subnet": {"ipConfigurations[].subnet": ({"id": SUBNET}, Absent)},
        "only-reviewed": {"dnsName": ("elsewhere.example",)},
    },
}
"""As `table.INPUTS`."""

REMOVED: Final = {
    "compute:VirtualMachineExtension": "jump-machine-off-at-night",
    "devtestlab:GlobalSchedule": "jump-machine-off-at-night",
}
"""As `table.REMOVED`."""
