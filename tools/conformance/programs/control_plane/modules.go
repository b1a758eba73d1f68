package main

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/applicationinsights/armapplicationinsights"
	insights "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/applicationinsights/armapplicationinsights/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	authorization "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	compute "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/consumption/armconsumption"
	consumption "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/consumption/armconsumption/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerregistry/armcontainerregistry"
	containerregistry "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerregistry/armcontainerregistry/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/devtestlabs/armdevtestlabs"
	devtestlabs "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/devtestlabs/armdevtestlabs/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/keyvault/armkeyvault"
	keyvault "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/keyvault/armkeyvault/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4"
	machinelearning "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"
	monitor "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"
	msi "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v7"
	network "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v7/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/operationalinsights/armoperationalinsights/v2"
	operationalinsights "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/operationalinsights/armoperationalinsights/v2/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/privatedns/armprivatedns"
	privatedns "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/privatedns/armprivatedns/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armfeatures"
	features "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armfeatures/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armlocks"
	locks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armlocks/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources"
	resources "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"
	subscriptions "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	storage "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage/fake"
)

// module is one of Azure's Go modules: its clients, and its fake servers.
type module struct {
	name    string
	clients any // its NewClientFactory
	servers func() (any, policy.Transporter)
}

// fakes makes a module's fake servers anew for each request, as they remember long-running operations.
func fakes[S any, T policy.Transporter](transport func(*S) T) func() (any, policy.Transporter) {
	return func() (any, policy.Transporter) {
		servers := new(S)
		return servers, transport(servers)
	}
}

var modules = []module{
	{"armmachinelearning", armmachinelearning.NewClientFactory, fakes(machinelearning.NewServerFactoryTransport)},
	{"armnetwork", armnetwork.NewClientFactory, fakes(network.NewServerFactoryTransport)},
	{"armprivatedns", armprivatedns.NewClientFactory, fakes(privatedns.NewServerFactoryTransport)},
	{"armstorage", armstorage.NewClientFactory, fakes(storage.NewServerFactoryTransport)},
	{"armkeyvault", armkeyvault.NewClientFactory, fakes(keyvault.NewServerFactoryTransport)},
	{"armcontainerregistry", armcontainerregistry.NewClientFactory, fakes(containerregistry.NewServerFactoryTransport)},
	{"armmonitor", armmonitor.NewClientFactory, fakes(monitor.NewServerFactoryTransport)},
	{"armapplicationinsights", armapplicationinsights.NewClientFactory, fakes(insights.NewServerFactoryTransport)},
	{"armoperationalinsights", armoperationalinsights.NewClientFactory, fakes(operationalinsights.NewServerFactoryTransport)},
	{"armauthorization", armauthorization.NewClientFactory, fakes(authorization.NewServerFactoryTransport)},
	{"armmsi", armmsi.NewClientFactory, fakes(msi.NewServerFactoryTransport)},
	{"armcompute", armcompute.NewClientFactory, fakes(compute.NewServerFactoryTransport)},
	{"armdevtestlabs", armdevtestlabs.NewClientFactory, fakes(devtestlabs.NewServerFactoryTransport)},
	{"armconsumption", armconsumption.NewClientFactory, fakes(consumption.NewServerFactoryTransport)},
	{"armresources", armresources.NewClientFactory, fakes(resources.NewServerFactoryTransport)},
	{"armsubscriptions", armsubscriptions.NewClientFactory, fakes(subscriptions.NewServerFactoryTransport)},
	{"armfeatures", armfeatures.NewClientFactory, fakes(features.NewServerFactoryTransport)},
	{"armlocks", armlocks.NewClientFactory, fakes(locks.NewServerFactoryTransport)},
}
