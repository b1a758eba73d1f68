"""Which refusals of Azure a deployment is repeated for, and which end it."""

import json

import pytest

from jobs.pulumi.retry_policy import Failure, advice, failures, waiting

URN = "urn:pulumi:dev::ml::platform:index:Component$azure-native:{}::{}"


def refused(kind, name, code, status=409):
    """An error as azure-native words it."""
    message = f'PUT https://management.azure.com/x: Status={status} Code="{code}" Message="No."'
    return Failure(URN.format(kind, name), message)


ENDPOINT = refused("network:PrivateEndpoint", "default-blob", "StorageAccountOperationInProgress")


@pytest.mark.parametrize(
    ("kind", "code", "status", "passes"),
    [
        ("network:PrivateEndpoint", "StorageAccountOperationInProgress", 409, True),
        ("network:VirtualNetwork", "AnotherOperationInProgress", 429, True),
        ("keyvault:Vault", "OverLimit", 429, True),
        ("authorization:RoleAssignment", "PrincipalNotFound", 400, True),
        ("machinelearningservices:Workspace", "AuthorizationFailed", 403, True),
        ("storage:StorageAccount", "KeyVaultAuthenticationFailure", 403, True),
        # The deployer's own role: of no other type does the creation use the stack's identities.
        ("network:VirtualNetwork", "AuthorizationFailed", 403, False),
        ("storage:StorageAccount", "AuthorizationFailed", 403, False),
        ("authorization:RoleAssignment", "AuthorizationFailed", 403, False),
        ("storage:StorageAccount", "StorageAccountAlreadyTaken", 409, False),
        ("machinelearningservices:Compute", "BadRequest", 400, False),
        ("keyvault:Vault", "MissingSubscriptionRegistration", 409, False),
        # Errors of a service, whatever the resource.
        ("keyvault:Vault", "GatewayTimeout", 504, True),
        ("storage:StorageAccount", "InternalServerError", 500, True),
        ("network:NatGateway", "ServiceUnavailable", 503, True),
        ("machinelearningservices:Compute", "BadGateway", 502, True),
        # 409 of Azure Machine Learning: it changes one thing at a time.
        ("machinelearningservices:Compute", "Conflict", 409, True),
        ("machinelearningservices:Compute", "ScopeLocked", 409, False),
        ("storage:StorageAccount", "Conflict", 409, False),
        ("network:FlowLog", "StorageProvisioningStateNotSucceeded", 400, True),
        ("insights:DataCollectionRule", "WorkspaceNotFound", 400, True),
        ("network:Subnet", "InUseSubnetCannotBeDeleted", 400, True),
    ],
)
def test_a_refusal_that_time_cures_is_told_from_one_that_it_does_not(kind, code, status, passes):
    failed = [refused(kind, "one", code, status)]
    assert bool(waiting(failed)) is passes
    assert not passes or not advice(failed)


def test_a_code_inside_another_error_is_found_and_part_of_a_word_is_not():
    nested = 'Code="Failed" Message="..." Details=[{"code":"RetryableError","message":"later"}]'
    assert Failure(URN.format("network:PrivateEndpoint", "vault"), nested).passing
    assert not Failure(URN.format("network:PrivateEndpoint", "vault"), "NotRetryableErrors").passing


def test_one_error_that_time_does_not_cure_ends_the_deployment():
    program = Failure("", "an unhandled error occurred")
    assert waiting([ENDPOINT]) == {
        "azure-native:network:PrivateEndpoint default-blob": (
            "another operation on it, or on a resource that it refers to, is running"
        )
    }
    assert waiting([ENDPOINT, program]) == {}
    assert waiting([]) == {}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("MissingSubscriptionRegistration", "az provider register"),
        ("StorageAccountAlreadyTaken", "name_seed"),
        ("the subscription has a total vCPU quota of 0", "request quota"),
    ],
)
def test_a_known_cause_comes_with_what_to_do(code, says):
    failed = [ENDPOINT, refused("keyvault:Vault", "vault", code)]
    assert says in advice(failed)
    assert "azure-native:keyvault:Vault vault: " in advice(failed)


def test_errors_are_read_from_pulumis_events():
    events = [
        {"diagnosticEvent": {"severity": "warning", "message": "an old version"}},
        {"diagnosticEvent": {"severity": "error", "urn": ENDPOINT.urn,
                             "message": f"{ENDPOINT.message}\n"}},
        {"resOpFailedEvent": {"status": 1}},
        {"diagnosticEvent": {"severity": "error", "urn": refused("x", "y", "z").urn,
                             "message": "failed to run policy: context canceled\n"}},
        {"diagnosticEvent": {"severity": "error", "message": "update failed\n"}},
    ]  # fmt: skip
    lines = [*map(json.dumps, events), '{"cut', "3"]
    assert failures(lines) == [ENDPOINT]


POLICY = (
    'Status=403 Code="RequestDisallowedByPolicy" Message="Resource \'hvddata\' was disallowed by'
    ' policy. Policy identifiers: \'[{\\"policyAssignment\\":{\\"name\\":\\"Costs need a'
    ' tag\\",\\"id\\":\\"/subscriptions/s/providers/Microsoft.Authorization/policyAssignments/'
    'tag\\"}}]\'." AdditionalInfo=[{"info":{"evaluationDetails":{"evaluatedExpressions":[{'
    '"expression":"tags[costCentre]","path":"tags[costCentre]","result":"True"}]}}}]'
)


@pytest.mark.parametrize(
    ("kind", "message", "passes", "says"),
    [
        ("network:VirtualNetwork", "ERROR: AADSTS50076: Due to a configuration change you must use"
         ' multi-factor authentication.\nRun: az login --tenant "t" --claims-challenge "eyJ9"\n',
         False, ("second factor", '`az login --tenant "t" --claims-challenge "eyJ9"`')),
        ("storage:StorageAccount", 'Status=403 Code="RequestDisallowedByAzure" Message="Users must'
         ' use MFA for Create operation. https://aka.ms/mfaforazure"', False, ("second factor",)),
        ("machinelearningservices:Workspace", "Soft-deleted workspace exists. Please purge or "
         "recover it.", False, ("Recently deleted", "name_seed", "make teardown")),
        ("storage:StorageAccount", 'Code="FailedIdentityOperation"', True, ("not known",)),
        ("containerregistry:Registry", "Failed to access KeyId 'https://v/keys/k'. Verify that "
         "identity has access", True, ("no effect yet",)),
        ("authorization:RoleAssignment", 'Code="ResourceNotFound" Message="containers/azureml"',
         False, ("has not made this container", "after the first job")),
        ("authorization:RoleAssignment", "resource '/subscriptions/s/providers/Microsoft."
         "Authorization/roleAssignments/8c57' does not exist", False, ("make roles", "owner")),
        ("authorization:RoleAssignment", 'Code="AuthorizationFailed"', False,
         ("roles to existing",)),
        ("network:PrivateDnsZoneGroup", 'Code="ResourceNotFound"', False, ("DNS zone",)),
        ("storage:StorageAccount", POLICY, False,
         ("assignment Costs need a tag", "policyAssignments/tag", "about tags[costCentre]")),
        ("consumption:Budget", "Cost Management supports only Enterprise Agreement, Web direct and "
         "Microsoft Customer Agreement offer types", False, ("budget.offered",)),
        ("network:PrivateEndpoint", 'Code="LinkedAuthorizationFailed"', False,
         ("Network Contributor on that subnet",)),
        ("network:VirtualNetwork", 'Code="AuthorizationFailed"', False, ("you lack a role",)),
        ("authorization:RoleAssignment", 'Status=409 Code="RoleAssignmentExists" Message="The role'
         ' assignment already exists."', False, ("another name", "az role assignment list")),
        ("machinelearningservices:Compute", 'Code="ClusterCoreQuotaReached" Message="Your vCPUs'
         ' are used up."', False, ("request quota",)),
        ("machinelearningservices:Compute", 'Code="BadRequest" Message="The specified Azure ML'
         ' Compute VM size STANDARD_ND40RS_V2 is not supported in the region."', False,
         ("does not offer its size",)),
        ("compute:VirtualMachine", 'Code="SkuNotAvailable"', False, ("does not offer its size",)),
        ("compute:VirtualMachine", 'Status=409 Code="AllocationFailed"', False,
         ("no free machines",)),
        ("network:NetworkSecurityGroup", 'Code="SecurityRuleParameterContainsUnsupportedValue"'
         ' Message="Security rule parameter DestinationAddressPrefix for rule with Id x cannot be'
         ' specified with Keyvault.eastus."', False, ("vault_service_tag",)),
        ("network:VirtualNetworkLink", 'Code="BadRequest" Message="A virtual network cannot be'
         ' linked to multiple zones with overlapping namespaces."', False, ("private_dns",)),
        ("privatedns:VirtualNetworkLink", 'Code="BadRequest" Message="overlapping namespaces"',
         False, ("private_dns",)),
        ("network:PrivateEndpoint", 'Code="InvalidResourceReference"', False, ("--refresh True",)),
        ("network:PrivateZone", 'Status=409 Code="CannotDeleteResource" Message="Cannot delete'
         ' resource while nested resources exist."', False, ("links that others have made",)),
        ("resources:ResourceGroup", 'Code="LocationNotAvailableForResourceGroup"', False,
         ("list-locations",)),
        ("keyvault:Vault", "cannot create already existing resource '/subscriptions/s/a'", False,
         ("answer was lost", "pulumi import")),
        ("network:VirtualNetwork", 'Get "https://management.azure.com": context deadline exceeded',
         True, ("did not answer in time",)),
        ("network:VirtualNetwork", 'Code="InUseSubnetCannotBeDeleted" Message="Subnet nodes is in'
         " use by /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/"
         "card/ipConfigurations/a and cannot be deleted.", True,
         ("still uses it", "networkInterfaces/card")),
        ("monitor:PrivateLinkScopedResource", 'Status=409 Code="Conflict" Message="Cannot modify'
         " resource while in provisioning state: 'Provisioning'.\"", True, ("another operation",)),
        ("network:PrivateEndpoint", 'Status=400 Code="SubnetIsFull" Message="Subnet endpoints with'
         ' address prefix 10.9.2.0/29 does not have enough capacity for 13 IP addresses."', False,
         ("has no room", "endpoints_subnet")),
        ("compute:VirtualMachine", "The property 'securityProfile.encryptionAtHost' is not valid "
         "because the 'Microsoft.Compute/EncryptionAtHost' feature is not enabled", False,
         ("az feature register",)),
    ],
)  # fmt: skip
def test_a_refusal_of_a_first_deployment_passes_or_is_explained(kind, message, passes, says):
    failure = Failure(URN.format(kind, "one"), message)
    assert bool(waiting([failure])) is passes
    told = failure.passing if passes else advice([failure])
    for part in says:
        assert part in told


def test_a_type_whose_budgets_are_refused_is_no_other_type():
    words = "Cost Management supports only some offer types"
    assert advice([Failure(URN.format("storage:StorageAccount", "one"), words)]) == ""
