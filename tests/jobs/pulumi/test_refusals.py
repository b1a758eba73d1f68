"""The refusals that a first deployment on Azure may meet: each is known, and says what to do."""

import pytest

from jobs.pulumi.retry_policy import Failure

URN = "urn:pulumi:dev::ml-azure-horovod::platform:index:Part$azure-native:{}::{}"
ZONE = "A virtual network cannot be linked to multiple zones with overlapping namespaces"
SINK = (
    'Status=409 Code="Conflict" Message="Data sink \'/subscriptions/s/logs\' is already used in'
    " diagnostic setting 'hvd-dev-diag-vault' for category 'AuditEvent'.\""
)


@pytest.mark.parametrize(
    ("kind", "message", "cure"),
    [
        (
            "machinelearningservices:Workspace",
            'Status=400 Code="BadRequest" Message="Missing dependent resources in workspace json"',
            "application_insights",
        ),
        (
            "machinelearningservices:Compute",
            "The specified subnet is missing the following rules: Outbound Storage 445",
            "network.storage_over_smb",
        ),
        (
            "machinelearningservices:Workspace",
            "Status=403 Code=AuthorizationFailure: This request is not authorized",
            "storage.public_access",
        ),
        (
            "machinelearningservices:Datastore",
            "validation of the container failed: (AuthorizationFailure)",
            "storage.public_access",
        ),
        (
            "monitor:ScheduledQueryRule",
            "SEM0100: 'where' operator: Failed to resolve table or column expression",
            "after the first job",
        ),
        (
            "monitor:DiagnosticSetting",
            "Category group: 'allLogs' is not supported, supported ones are: 'audit'",
            "categories list",
        ),
        (
            "monitor:DiagnosticSetting",
            "cannot create already existing resource '/subscriptions/s/diagnosticSettings/x'",
            "diagnostic-settings delete",
        ),
        ("monitor:DiagnosticSetting", SINK, "diagnostic-settings delete"),
        (
            "network:FlowLog",
            'Code="ResourceGroupNotFound" Message="Resource group NetworkWatcherRG"',
            "az network watcher configure",
        ),
        ("privatedns:VirtualNetworkLink", f'Code="BadRequest" Message="{ZONE}"', "private_dns"),
    ],
)
def test_what_a_first_deployment_may_meet_has_a_cure_in_one_sentence(kind, message, cure):
    failure = Failure(URN.format(kind, "x"), message)
    assert failure.passing is None
    assert failure.cure is not None
    assert cure in failure.cure
    assert ". " not in failure.cure


def test_the_same_words_about_another_resource_are_another_refusal():
    for kind in ("keyvault:Vault", "storage:StorageAccount"):
        assert Failure(URN.format(kind, "x"), "(AuthorizationFailure)").cure is None
    other = Failure(URN.format("authorization:RoleAssignment", "x"), 'Code="ResourceNotFound"')
    assert "Network Watcher" not in str(other.cure)
