"""Types of networks, outbound gateways, private endpoints and DNS zones."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types.resource_type import ResourceType, words

_API: Final = "2024-05-01"
_DNS_API: Final = "2024-06-01"
_TRACKED: Final = frozenset({"location", "tags"})
_NAMED: Final = frozenset({"id", "name"})
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9_])?"
_PRIVATE_LINK: Final = frozenset({"Enabled", "Disabled"})
_ON_SUBNET: Final = frozenset(
    {"Enabled", "Disabled", "NetworkSecurityGroupEnabled", "RouteTableEnabled"}
)
_PROTOCOLS: Final = frozenset({"*", "Tcp", "Udp", "Icmp", "Esp", "Ah"})

TYPES: Final[Mapping[str, ResourceType]] = {
    "network:VirtualNetwork": ResourceType(
        "Microsoft.Network/virtualNetworks/{virtualNetworkName}",
        _API,
        inputs=_TRACKED
        | words(
            "addressSpace bgpCommunities ddosProtectionPlan dhcpOptions enableDdosProtection"
            " enableVmProtection encryption extendedLocation flowTimeoutInMinutes"
            " privateEndpointVNetPolicies subnets virtualNetworkPeerings"
        ),
        required=frozenset({"location", "addressSpace.addressPrefixes"}),
        outer=_TRACKED | {"extendedLocation"},
        wrapped={"subnets": _NAMED, "virtualNetworkPeerings": _NAMED},
        values={
            "subnets.privateEndpointNetworkPolicies": _ON_SUBNET,
            "subnets.privateLinkServiceNetworkPolicies": _PRIVATE_LINK,
        },
        ranges={
            "addressSpace.addressPrefixes": "",
            "subnets.addressPrefix": "addressSpace.addressPrefixes",
        },
        name_form=_NAME,
    ),
    "network:NetworkSecurityGroup": ResourceType(
        "Microsoft.Network/networkSecurityGroups/{networkSecurityGroupName}",
        _API,
        inputs=_TRACKED | {"flushConnection", "securityRules"},
        required=frozenset({"location"}),
        wrapped={"securityRules": _NAMED},
        values={
            "securityRules.access": frozenset({"Allow", "Deny"}),
            "securityRules.direction": frozenset({"Inbound", "Outbound"}),
            "securityRules.protocol": _PROTOCOLS,
        },
        name_form=_NAME,
    ),
    "network:FlowLog": ResourceType(
        "Microsoft.Network/networkWatchers/{networkWatcherName}/flowLogs/{flowLogName}",
        _API,
        inputs=_TRACKED
        | words(
            "enabled enabledFilteringCriteria flowAnalyticsConfiguration format identity"
            " networkWatcherName retentionPolicy storageId targetResourceId"
        ),
        required=frozenset({"location", "storageId", "targetResourceId"}),
        outer=_TRACKED | {"identity"},
        values={"format.type": frozenset({"JSON"})},
        name_form=_NAME,
    ),
    "network:NatGateway": ResourceType(
        "Microsoft.Network/natGateways/{natGatewayName}",
        _API,
        inputs=_TRACKED
        | {"idleTimeoutInMinutes", "publicIpAddresses", "publicIpPrefixes", "sku", "zones"},
        required=frozenset({"location", "sku.name"}),
        outer=_TRACKED | {"sku", "zones"},
        values={"sku.name": frozenset({"Standard"})},
        fixed=frozenset({"zones"}),
        name_form=_NAME,
    ),
    "network:PublicIPAddress": ResourceType(
        "Microsoft.Network/publicIPAddresses/{publicIpAddressName}",
        _API,
        inputs=_TRACKED
        | words(
            "ddosSettings deleteOption dnsSettings extendedLocation idleTimeoutInMinutes"
            " ipAddress ipTags publicIPAddressVersion publicIPAllocationMethod publicIPPrefix"
            " sku zones"
        ),
        required=frozenset({"location"}),
        outer=_TRACKED | {"extendedLocation", "sku", "zones"},
        values={
            "publicIPAllocationMethod": frozenset({"Static", "Dynamic"}),
            "sku.name": frozenset({"Basic", "Standard"}),
        },
        fixed=frozenset({"zones"}),
        name_form=_NAME,
    ),
    "network:NetworkInterface": ResourceType(
        "Microsoft.Network/networkInterfaces/{networkInterfaceName}",
        _API,
        inputs=_TRACKED
        | words(
            "auxiliaryMode auxiliarySku disableTcpStateTracking dnsSettings"
            " enableAcceleratedNetworking enableIPForwarding extendedLocation ipConfigurations"
            " migrationPhase networkSecurityGroup nicType privateLinkService workloadType"
        ),
        required=frozenset({"location", "ipConfigurations.name"}),
        outer=_TRACKED | {"extendedLocation"},
        wrapped={"ipConfigurations": _NAMED},
        values={"ipConfigurations.privateIPAllocationMethod": frozenset({"Static", "Dynamic"})},
        name_form=_NAME,
    ),
    "network:BastionHost": ResourceType(
        "Microsoft.Network/bastionHosts/{bastionHostName}",
        _API,
        inputs=_TRACKED
        | words(
            "disableCopyPaste dnsName enableFileCopy enableIpConnect enableKerberos"
            " enablePrivateOnlyBastion enableSessionRecording enableShareableLink enableTunneling"
            " ipConfigurations networkAcls scaleUnits sku virtualNetwork zones"
        ),
        required=frozenset({"location", "ipConfigurations.name"}),
        outer=_TRACKED | {"sku", "zones"},
        wrapped={"ipConfigurations": _NAMED},
        values={"sku.name": words("Basic Developer Premium Standard")},
        fixed=frozenset({"ipConfigurations", "zones"}),
        name_form=_NAME,
    ),
    "network:ServiceEndpointPolicy": ResourceType(
        "Microsoft.Network/serviceEndpointPolicies/{serviceEndpointPolicyName}",
        _API,
        inputs=_TRACKED
        | {"contextualServiceEndpointPolicies", "serviceAlias", "serviceEndpointPolicyDefinitions"},
        required=frozenset({"location"}),
        wrapped={"serviceEndpointPolicyDefinitions": _NAMED},
        name_form=_NAME,
    ),
    "network:PrivateEndpoint": ResourceType(
        "Microsoft.Network/privateEndpoints/{privateEndpointName}",
        _API,
        inputs=_TRACKED
        | words(
            "applicationSecurityGroups customDnsConfigs customNetworkInterfaceName"
            " extendedLocation ipConfigurations manualPrivateLinkServiceConnections"
            " privateLinkServiceConnections subnet"
        ),
        required=frozenset({"location", "subnet.id"}),
        outer=_TRACKED | {"extendedLocation"},
        wrapped={
            "ipConfigurations": _NAMED,
            "manualPrivateLinkServiceConnections": _NAMED,
            "privateLinkServiceConnections": _NAMED,
            "subnet": _NAMED,
        },
        name_form=_NAME,
    ),
    "network:PrivateDnsZoneGroup": ResourceType(
        "Microsoft.Network/privateEndpoints/{privateEndpointName}"
        "/privateDnsZoneGroups/{privateDnsZoneGroupName}",
        _API,
        inputs=frozenset({"name", "privateDnsZoneConfigs"}),
        outer=frozenset({"name"}),
        wrapped={"privateDnsZoneConfigs": frozenset({"name"})},
    ),
    "privatedns:PrivateZone": ResourceType(
        "Microsoft.Network/privateDnsZones/{privateZoneName}",
        _DNS_API,
        inputs=_TRACKED,
        required=frozenset({"location"}),
        values={"location": frozenset({"Global", "global"})},
        name_form=r"(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z0-9_-]{1,63}",
    ),
    "privatedns:VirtualNetworkLink": ResourceType(
        "Microsoft.Network/privateDnsZones/{privateZoneName}"
        "/virtualNetworkLinks/{virtualNetworkLinkName}",
        _DNS_API,
        inputs=_TRACKED | {"registrationEnabled", "resolutionPolicy", "virtualNetwork"},
        required=frozenset({"location", "virtualNetwork.id"}),
        values={"location": frozenset({"Global", "global"})},
        fixed=frozenset({"virtualNetwork"}),
        name_form=_NAME,
    ),
}
