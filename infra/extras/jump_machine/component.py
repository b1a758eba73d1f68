"""The jump machine: a computer inside the network, and the Bastion that leads to it.

People sign in with Entra ID (Microsoft Entra, "Sign in to a Linux virtual machine in Azure by using
Microsoft Entra ID and OpenSSH"): the extension and the machine's own identity do that, and two
roles decide who may. The machine's identity has no role of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import compute, devtestlab, network

from infra import outputs
from infra.catalog import roles
from infra.components.base import Component, StackContext
from infra.components.grants import Scope, entra_group, grant
from infra.components.monitoring import ALL, LogSource
from infra.composition.parts import Declared, Platform
from infra.extras.jump_machine import cloud_init
from infra.extras.jump_machine.leaf import (
    BASTION,
    BASTION_ADDRESS,
    MACHINE,
    SCHEDULE,
    AccessSettings,
)

ADMINISTRATOR = "azureuser"
"""Account that Azure demands a name for; cloud-init does not make it."""
DISK_GB = 32
"""Room for the environments of several people; the image takes 30 GB at least."""
KEPT_BY_AZURE = ("osProfile", "storageProfile.imageReference", "securityProfile.securityType")
"""Inputs that Azure refuses to change; a change replaces the machine."""


def declare(platform: Platform) -> Declared | None:
    """Declare the machine and its Bastion, if the settings ask for them."""
    settings = platform.settings.of(AccessSettings)
    if not settings.jump_machine:
        return None
    subnets = platform.connected.subnets
    jump = JumpMachine(
        platform.context, JumpMachineArgs(settings, subnets["jump"], subnets.get("bastion"))
    )

    def export(values: Mapping[str, str]) -> Mapping[str, Any]:
        off_at = f"{settings.off_at[:2]}:{settings.off_at[2:]} {settings.time_zone}"
        machine = outputs.JumpMachine(values["jump_machine"], values["bastion"], off_at)
        return {"jump_machine": machine}

    logs = []
    if jump.bastion is not None and jump.address is not None:
        logs = [
            LogSource("bastion", jump.bastion.id, (ALL,)),
            LogSource("bastion-address", jump.address.id, (ALL,)),
        ]
    ids = {"jump_machine": jump.machine.id, "bastion": jump.bastion_id}
    return Declared(logs, ids, export)


@dataclass(frozen=True)
class JumpMachineArgs:
    """The machine and its Bastion."""

    settings: AccessSettings
    subnet: pulumi.Input[str]
    bastion_subnet: pulumi.Input[str] | None
    """Id of AzureBastionSubnet; None if the Bastion exists already."""


class JumpMachine(Component):
    """One machine without a public address, that Azure turns off every evening.

    A machine that is turned off by the schedule is deallocated: only its disk costs money. Nothing
    starts it again but its users.
    """

    def __init__(self, context: StackContext, args: JumpMachineArgs) -> None:
        super().__init__("jump-machine")
        self._context, self._settings = context, args.settings
        self.interface = network.NetworkInterface(
            "jump",
            network_interface_name=context.names.network_interface("jump"),
            resource_group_name=context.group,
            location=context.region,
            enable_ip_forwarding=False,
            ip_configurations=[
                network.NetworkInterfaceIPConfigurationArgs(
                    name="private",
                    private_ip_allocation_method=network.IPAllocationMethod.DYNAMIC,
                    subnet=network.SubnetArgs(id=args.subnet),
                )
            ],
            tags=context.tags,
            opts=self.child_options(),
        )
        self.machine = self._machine(MACHINE(context.names))
        compute.VirtualMachineExtension(
            "entra-sign-in",
            vm_extension_name="AADSSHLoginForLinux",
            vm_name=self.machine.name,
            resource_group_name=context.group,
            location=context.region,
            publisher="Microsoft.Azure.ActiveDirectory",
            type="AADSSHLoginForLinux",
            type_handler_version="1.0",
            auto_upgrade_minor_version=True,
            tags=context.tags,
            opts=self.child_options(extra=pulumi.ResourceOptions(deleted_with=self.machine)),
        )
        devtestlab.GlobalSchedule(
            "jump-off",
            name=SCHEDULE(context.names),
            resource_group_name=context.group,
            location=context.region,
            status=devtestlab.EnableStatus.ENABLED,
            task_type="ComputeVmShutdownTask",
            daily_recurrence=devtestlab.DayDetailsArgs(time=args.settings.off_at),
            time_zone_id=args.settings.time_zone,
            target_resource_id=self.machine.id,
            notification_settings=devtestlab.NotificationSettingsArgs(
                status=devtestlab.EnableStatus.DISABLED
            ),
            tags=context.tags,
            opts=self.child_options(),
        )
        self.address: network.PublicIPAddress | None = None
        self.bastion: network.BastionHost | None = None
        self.bastion_id: pulumi.Input[str] = args.settings.existing_bastion or ""
        if args.bastion_subnet is not None:
            self._bastion(args.bastion_subnet)
        self._grant()
        self.register_outputs({"machine": self.machine.id})

    def _machine(self, name: str) -> compute.VirtualMachine:
        settings = self._settings
        return compute.VirtualMachine(
            "jump",
            vm_name=name,
            resource_group_name=self._context.group,
            location=self._context.region,
            identity=compute.VirtualMachineIdentityArgs(
                type=compute.ResourceIdentityType.SYSTEM_ASSIGNED
            ),
            hardware_profile=compute.HardwareProfileArgs(vm_size=settings.size),
            network_profile=compute.NetworkProfileArgs(
                network_interfaces=[
                    compute.NetworkInterfaceReferenceArgs(id=self.interface.id, primary=True)
                ]
            ),
            os_profile=compute.OSProfileArgs(
                computer_name=name,
                admin_username=ADMINISTRATOR,
                custom_data=cloud_init.encoded(settings.repository, settings.revision),
                allow_extension_operations=True,
                linux_configuration=compute.LinuxConfigurationArgs(
                    disable_password_authentication=True,
                    provision_vm_agent=True,
                    ssh=compute.SshConfigurationArgs(
                        public_keys=[
                            compute.SshPublicKeyArgs(
                                key_data=settings.public_key,
                                path=f"/home/{ADMINISTRATOR}/.ssh/authorized_keys",
                            )
                        ]
                    ),
                ),
            ),
            security_profile=compute.SecurityProfileArgs(
                # The subscription must have the feature EncryptionAtHost of Microsoft.Compute.
                encryption_at_host=True,
                security_type=compute.SecurityTypes.TRUSTED_LAUNCH,
                uefi_settings=compute.UefiSettingsArgs(
                    secure_boot_enabled=True, v_tpm_enabled=True
                ),
            ),
            storage_profile=compute.StorageProfileArgs(
                image_reference=compute.ImageReferenceArgs(
                    publisher="Debian", offer="debian-12", sku="12-gen2", version="latest"
                ),
                os_disk=compute.OSDiskArgs(
                    create_option=compute.DiskCreateOptionTypes.FROM_IMAGE,
                    delete_option=compute.DiskDeleteOptionTypes.DELETE,
                    disk_size_gb=DISK_GB,
                    managed_disk=compute.ManagedDiskParametersArgs(
                        storage_account_type=compute.StorageAccountTypes.STANDARD_SS_D_LRS
                    ),
                ),
            ),
            tags=self._context.tags,
            opts=self.child_options(
                extra=pulumi.ResourceOptions(
                    delete_before_replace=True, replace_on_changes=list(KEPT_BY_AZURE)
                ),
            ),
        )

    def _bastion(self, subnet: pulumi.Input[str]) -> None:
        context = self._context
        self.address = network.PublicIPAddress(
            "bastion",
            public_ip_address_name=BASTION_ADDRESS(context.names),
            resource_group_name=context.group,
            location=context.region,
            sku=network.PublicIPAddressSkuArgs(name=network.PublicIPAddressSkuName.STANDARD),
            public_ip_allocation_method=network.IPAllocationMethod.STATIC,
            tags=context.tags,
            opts=self.child_options(),
        )
        self.bastion = network.BastionHost(
            "bastion",
            bastion_host_name=BASTION(context.names),
            resource_group_name=context.group,
            location=context.region,
            # The smallest tier with native clients, and so with an Entra sign-in to Linux.
            sku=network.SkuArgs(name=network.BastionHostSkuName.STANDARD),
            scale_units=2,
            enable_tunneling=True,
            enable_ip_connect=False,
            enable_shareable_link=False,
            ip_configurations=[
                network.BastionHostIPConfigurationArgs(
                    name="public",
                    public_ip_address=network.SubResourceArgs(id=self.address.id),
                    subnet=network.SubResourceArgs(id=subnet),
                )
            ],
            tags=context.tags,
            opts=self.child_options(),
        )
        self.bastion_id = self.bastion.id

    def _grant(self) -> None:
        """Assign the roles of the people who use the machine: to sign in, and to read what lies on
        the way (Azure Bastion, "FAQ", roles).
        """
        machine = Scope("jump-machine", self.machine.id)
        read = [Scope("jump-interface", self.interface.id)]
        if self.bastion is not None:
            read.append(Scope("bastion", self.bastion.id))
        groups = {
            "jump-users": (self._settings.users, roles.VM_USER_LOGIN),
            "jump-administrators": (self._settings.administrators, roles.VM_ADMINISTRATOR_LOGIN),
        }
        for label, (group, sign_in) in groups.items():
            if group is None:
                continue
            principal = entra_group(label, group)
            on_machine = [roles.READER, sign_in, roles.VM_POWER_ON]
            grant(self._context, principal, machine, on_machine, self.child_options())
            for scope in read:
                grant(self._context, principal, scope, [roles.READER], self.child_options())
