"""Types of virtual machines, their extensions and shutdown schedules."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types.resource_type import ResourceType, words

_API: Final = "2024-11-01"
_TRACKED: Final = frozenset({"location", "tags"})
_SWITCH: Final = frozenset({"Enabled", "Disabled"})

TYPES: Final[Mapping[str, ResourceType]] = {
    "compute:VirtualMachine": ResourceType(
        "Microsoft.Compute/virtualMachines/{vmName}",
        _API,
        inputs=_TRACKED
        | words(
            "additionalCapabilities applicationProfile availabilitySet billingProfile"
            " capacityReservation diagnosticsProfile evictionPolicy extendedLocation"
            " extensionsTimeBudget hardwareProfile host hostGroup identity licenseType"
            " networkProfile osProfile placement plan platformFaultDomain priority"
            " proximityPlacementGroup scheduledEventsPolicy scheduledEventsProfile"
            " securityProfile storageProfile userData virtualMachineScaleSet zones"
        ),
        required=words("location hardwareProfile.vmSize networkProfile storageProfile"),
        outer=_TRACKED | words("extendedLocation identity placement plan zones"),
        values={
            "securityProfile.securityType": frozenset({"TrustedLaunch", "ConfidentialVM"}),
            "storageProfile.osDisk.createOption": words("FromImage Empty Attach Copy Restore"),
            "storageProfile.osDisk.deleteOption": frozenset({"Delete", "Detach"}),
        },
        fixed=words("osProfile storageProfile.imageReference zones"),
        name_form=r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?",
    ),
    "compute:VirtualMachineExtension": ResourceType(
        "Microsoft.Compute/virtualMachines/{vmName}/extensions/{vmExtensionName}",
        _API,
        inputs=_TRACKED
        | words(
            "autoUpgradeMinorVersion enableAutomaticUpgrade forceUpdateTag instanceView"
            " protectedSettings protectedSettingsFromKeyVault provisionAfterExtensions publisher"
            " settings suppressFailures type typeHandlerVersion"
        ),
        required=words("location publisher type typeHandlerVersion"),
        fixed=words("publisher type"),
    ),
    "devtestlab:GlobalSchedule": ResourceType(
        "Microsoft.DevTestLab/schedules/{name}",
        "2018-09-15",
        inputs=_TRACKED
        | words(
            "dailyRecurrence hourlyRecurrence notificationSettings status targetResourceId"
            " taskType timeZoneId weeklyRecurrence"
        ),
        values={"status": _SWITCH, "notificationSettings.status": _SWITCH},
        # Azure looks for the schedule of a machine by this form alone.
        name_form=r"shutdown-computevm-.+",
    ),
}
