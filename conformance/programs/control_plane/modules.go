package main

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	authorization "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4"
	machinelearning "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"
	msi "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"
	subscriptions "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions/fake"
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
	{"armauthorization", armauthorization.NewClientFactory, fakes(authorization.NewServerFactoryTransport)},
	{"armmachinelearning", armmachinelearning.NewClientFactory, fakes(machinelearning.NewServerFactoryTransport)},
	{"armmsi", armmsi.NewClientFactory, fakes(msi.NewServerFactoryTransport)},
	{"armsubscriptions", armsubscriptions.NewClientFactory, fakes(subscriptions.NewServerFactoryTransport)},
}
