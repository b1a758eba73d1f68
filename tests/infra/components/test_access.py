"""Who may do what: every role is there for a reason, and no principal has one too many."""

import pytest

from infra.catalog import role_conditions, roles
from infra.render.mocks import guid
from infra.resources import COMPUTE, IDENTITY, WORKSPACE, of_kind, requirements
from tests.infra.support.production import WRITES_BLOBS
from tests.infra.support.stacks import nightly, ran, rendered
from tests.infra.support.variants import ASSIGNING, GROUP_OF_PEOPLE, OPTIONS, SERVICES

PEOPLE = OPTIONS["people"]
GROUPS = ("publishers", "scientists", "operators")
WRITERS = {"preparation", "publishers"}


def assignments(resources):
    return [one for one in resources if one.type == "azure-native:authorization:RoleAssignment"]


def role(assignment):
    return assignment.inputs["roleDefinitionId"].rpartition("/")[2]


def holders(resources):
    """Names of the identities and groups by the id that roles are given to."""
    found = {GROUP_OF_PEOPLE.format(i): group for i, group in enumerate(GROUPS, 1)}
    for one in assignments(resources):
        who = one.inputs["principalId"]
        if who not in found:
            found[who] = one.name.partition("-")[0]
    return found


def test_people_who_have_their_roles_on_an_account_of_others_get_none_there():
    theirs = {SERVICES["storage.existing_default"], SERVICES["storage.existing_data"]}

    def given(**more):
        resources = rendered("dev", **SERVICES, **PEOPLE, **more)
        return {
            one.inputs["scope"]
            for one in assignments(resources)
            if one.inputs["principalType"] == "Group"
        }

    assert theirs <= given()
    assert given(people__on_existing_accounts=False) == given() - theirs
    assert given(people__on_existing_accounts=False)


def test_a_role_on_a_resource_of_another_subscription_is_defined_there():
    resources = rendered("dev", **OPTIONS["their services"])
    elsewhere = 0
    for one in assignments(resources):
        subscription = one.inputs["scope"].split("/")[2]
        assert one.inputs["roleDefinitionId"].startswith(f"/subscriptions/{subscription}/")
        elsewhere += subscription.startswith("2222")
    assert elsewhere > 5


def data_account(resources):
    [account] = [
        one
        for one in resources
        if one.type.endswith(":StorageAccount") and one.inputs["kind"] == "BlockBlobStorage"
    ]
    return account


def on_data(resources, account_id):
    """Roles on the training data by who has them and on what, from the account or around it."""
    who = holders(resources)
    found = {}
    for one in assignments(resources):
        scope = one.inputs["scope"]
        if account_id.startswith(scope) or scope.startswith(account_id):
            where = scope.partition("/containers/")[2]
            found.setdefault(who[one.inputs["principalId"]], set()).add((where, role(one)))
    return found


def on_default_account(resources, who):
    """Data roles of an identity on the workspace's account: by container, "" for all of them."""
    [workspace] = of_kind(resources, WORKSPACE)
    return {
        (one.inputs["scope"].partition("/containers/")[2], role(one)): one.inputs.get("condition")
        for one in assignments(resources)
        if one.name.startswith(f"{who}-")
        and one.inputs["scope"].startswith(workspace.inputs["storageAccount"])
    }


def test_training_data_are_written_by_preparation_and_publishers_only():
    resources = rendered("dev", **PEOPLE)
    assert on_data(resources, data_account(resources).id) == {
        "workspace": {("", roles.BLOB_DATA_READER)},
        "training": {("prepared", roles.BLOB_DATA_READER)},
        "scientists": {("", roles.BLOB_DATA_READER)},
        "preparation": {
            ("raw", roles.BLOB_DATA_READER),
            ("prepared", roles.BLOB_DATA_CONTRIBUTOR),
        },
        "publishers": {("", roles.BLOB_DATA_CONTRIBUTOR)},
    }


ALL_BUT_RESULTS = role_conditions.reads_all_but("results", except_below=["environments"])
ALL_BUT_RUNS = role_conditions.reads_all_but("results", except_below=["environments", "models"])
RUNS = role_conditions.writes_below("runs")
DEFAULT_OUTPUTS = role_conditions.writes_below("azureml")


@pytest.mark.parametrize(
    ("who", "before", "outputs"),
    [
        (
            "training",
            {("", roles.BLOB_DATA_READER): None, ("results", roles.BLOB_DATA_CONTRIBUTOR): RUNS},
            DEFAULT_OUTPUTS,
        ),
        ("preparation", {("", roles.BLOB_DATA_READER): ALL_BUT_RUNS}, DEFAULT_OUTPUTS),
        ("build", {("", roles.BLOB_DATA_READER): ALL_BUT_RESULTS}, None),
    ],
)
@pytest.mark.parametrize(
    ("option", "logs", "blobstore"),
    [
        ("as it is", "azureml", "azureml-blobstore-{}"),
        ("everything theirs", "{}-azureml", "{}-azureml-blobstore"),
    ],
)
def test_jobs_write_logs_and_what_their_duty_writes(option, logs, blobstore, who, before, outputs):
    resources = rendered("dev", **OPTIONS[option])
    [workspace] = of_kind(resources, WORKSPACE)
    name = guid(workspace.id)
    expected = {**before, (logs.format(name), roles.BLOB_DATA_CONTRIBUTOR): None}
    if outputs:
        expected[blobstore.format(name), roles.BLOB_DATA_CONTRIBUTOR] = outputs
    assert on_default_account(resources, who) == expected


def test_a_role_on_a_container_waits_until_the_container_exists():
    resources = rendered("dev")
    needed = requirements(resources)
    for name, container in {
        "training-results-storage-blob-data-contributor": "storage:BlobContainer::default-results",
        "training-prepared-storage-blob-data-reader": "storage:BlobContainer::data-prepared",
        "build-job-logs-storage-blob-data-contributor": f"{WORKSPACE}::workspace",
        "training-job-outputs-storage-blob-data-contributor": f"{WORKSPACE}::workspace",
    }.items():
        [one] = [one for one in assignments(resources) if one.name == name]
        assert f"azure-native:{container}" in needed[one.key]


@pytest.mark.parametrize("option", nightly(ASSIGNING))
def test_nobody_else_writes_training_data_in_any_stack(option):
    resources = rendered("dev", **OPTIONS[option])
    given = OPTIONS[option].get("storage.existing_data")
    found = on_data(resources, given or data_account(resources).id)
    writers = {
        who
        for who, held in found.items()
        if not {held_role for _, held_role in held}.isdisjoint(WRITES_BLOBS)
    }
    assert writers <= WRITERS
    assert ("preparation" in writers) == (option != "another stack prepares")


def test_a_cluster_of_any_name_acts_as_the_identity_of_its_duty_in_the_subnet_of_its_duty():
    resources = rendered("dev", **OPTIONS["other clusters"])
    given = {
        one.name: (
            one.inputs["identity"]["userAssignedIdentities"][0].rpartition("-")[2],
            one.inputs["properties"]["properties"]["subnet"]["id"].rpartition("-")[2],
        )
        for one in of_kind(resources, COMPUTE)
    }
    assert given == {
        "cluster-a100": ("training", "training"),
        "cluster-cpu": ("training", "training"),
        "cluster-t4-spare": ("training", "training"),
        "cluster-shards": ("preparation", "training"),
        "cluster-images": ("build", "build"),
    }


@pytest.mark.parametrize(
    ("option", "duties"),
    [
        ("another stack prepares", {"training", "build"}),
        ("prepares for another stack", {"preparation", "build"}),
    ],
)
def test_an_identity_is_declared_only_for_the_duty_of_a_cluster(option, duties):
    stack = ran("dev", **OPTIONS[option])
    acted_as = {
        one.inputs["identity"]["userAssignedIdentities"][0].rpartition("-")[2]
        for one in of_kind(stack.resources, COMPUTE)
    }
    declared = {one.name.partition("-")[2] for one in of_kind(stack.resources, IDENTITY)}
    with_roles = set(holders(stack.resources).values()) - {*GROUPS}
    exported = {duty for duty, client in stack.platform["identities"].items() if client}
    assert acted_as == duties
    assert declared == with_roles == exported == {"workspace", *duties}


def test_names_of_assignments_differ_and_stay_the_same():
    def names(stack, **overrides):
        found = assignments(rendered(stack, **overrides))
        return {one.name: one.inputs["roleAssignmentName"] for one in found}

    plain, more = names("dev"), names("dev", **PEOPLE)
    assert len(set(more.values())) == len(more)
    assert plain.items() <= more.items()
    assert not set(plain.values()) & set(names("prod").values())


def test_a_principal_that_is_made_anew_gives_up_its_old_assignment_first():
    for one in assignments(rendered("dev")):
        assert one.options["deleteBeforeReplace"]


def test_roles_on_taken_services_are_the_same_as_on_declared_ones():
    def given(**overrides):
        return {one.name for one in assignments(rendered("dev", **overrides))}

    assert given(**SERVICES) == given()
