"""Who has no role on blobs does not get them: neither people nor jobs."""

import re
import uuid
from dataclasses import replace

import pytest

from infra.catalog import role_conditions
from rehearsal.blob_storage import role_condition
from rehearsal.blob_storage.role_policy import (
    BLOB_DATA_CONTRIBUTOR,
    BLOB_DATA_OWNER,
    BLOB_DATA_READER,
    Assignment,
    allows,
)
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    OPTIONS,
    PROVIDERS,
    RESULTS,
    SUBSCRIPTION,
    WORKSPACE,
    Client,
    compute,
    declare,
    error,
    give,
)

OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
CONTRIBUTOR = "b24988ac-6180-42a0-ab88-20f7382dd24c"
DATA_SCIENTIST = "f6c7c914-8db3-469d-8ca1-694a8f32e121"
CONTAINER = f"{ACCOUNT}/blobServices/default/containers/results"
IDENTITY = f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/training"


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [
        (BLOB_DATA_READER, True, False),
        (BLOB_DATA_CONTRIBUTOR, True, True),
        (BLOB_DATA_OWNER, True, True),
        (OWNER, False, False),
        (CONTRIBUTOR, False, False),
    ],
)
def test_only_roles_on_data_give_data(role, reads, writes):
    given = [Assignment("me", role, CONTAINER.lower())]
    assert allows(given, frozenset({"me"}), CONTAINER, "read") is reads
    assert allows(given, frozenset({"me"}), CONTAINER, "write") is writes


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (SUBSCRIPTION, True),
        (GROUP, True),
        (ACCOUNT, True),
        (CONTAINER, True),
        (f"{CONTAINER}-2", False),
        (CONTAINER[:-1], False),
        (ACCOUNT[:-1], False),
        (f"{GROUP}-2", False),
    ],
)
def test_a_role_holds_for_all_that_is_below_its_scope(scope, allowed):
    given = [Assignment("me", BLOB_DATA_READER, scope.lower())]
    assert allows(given, frozenset({"me"}), CONTAINER, "read") is allowed


def test_a_role_on_a_container_is_none_on_its_account():
    given = [Assignment("me", BLOB_DATA_READER, CONTAINER.lower())]
    assert not allows(given, frozenset({"me"}), ACCOUNT, "read")


def test_a_role_is_its_holders_or_that_of_a_group():
    given = [Assignment("team", BLOB_DATA_READER, CONTAINER.lower())]
    assert allows(given, frozenset({"me", "team"}), CONTAINER, "read")
    assert not allows(given, frozenset({"me"}), CONTAINER, "read")


READS_OTHERS = role_conditions.reads_all_but("results", except_below=["environments"])
READS_MODELS = role_conditions.reads_all_but("results", except_below=["environments", "models"])
WRITES_OWN = role_conditions.writes_below("azureml")
OTHER = f"{ACCOUNT}/blobServices/default/containers/other"


@pytest.mark.parametrize(
    ("condition", "container", "path", "reads", "writes"),
    [
        (READS_OTHERS, CONTAINER, "a", False, True),
        (READS_OTHERS, OTHER, "a", True, True),
        (READS_OTHERS, CONTAINER, "environments/a", True, True),
        (READS_OTHERS, CONTAINER, "environments", False, True),
        (READS_OTHERS, CONTAINER, "", True, True),
        (READS_MODELS, CONTAINER, "models/a/1/b", True, True),
        (READS_MODELS, CONTAINER, "environments/a", True, True),
        (READS_MODELS, CONTAINER, "runs/a", False, True),
        (WRITES_OWN, OTHER, "azureml/a", True, True),
        (WRITES_OWN, OTHER, "azureml", True, False),
        (WRITES_OWN, OTHER, "LocalUpload/azureml/a", True, False),
    ],
)
def test_a_condition_restricts_a_role_to_containers_and_folders(
    condition, container, path, reads, writes
):
    given = [Assignment("me", BLOB_DATA_CONTRIBUTOR, ACCOUNT.lower(), condition)]
    assert allows(given, frozenset({"me"}), container, "read", path) is reads
    assert allows(given, frozenset({"me"}), container, "write", path) is writes


def test_a_condition_does_not_restrict_what_is_done_to_a_container():
    given = [Assignment("me", BLOB_DATA_CONTRIBUTOR, ACCOUNT.lower(), WRITES_OWN)]
    assert allows(given, frozenset({"me"}), CONTAINER, "write")


NAME = "@Resource[Microsoft.Storage/storageAccounts/blobServices/containers:name]"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (f"{NAME} StringEquals 'a' OR {NAME} StringEquals 'b' AND {NAME} StringEquals 'c'", True),
        (
            f"({NAME} StringEquals 'a' OR {NAME} StringEquals 'b') AND {NAME} StringEquals 'c'",
            False,
        ),
        (f"!({NAME} StringStartsWith 'a')", False),
        (f"{NAME} StringNotStartsWith 'b'", True),
        (f"NOT {NAME} StringEquals 'a' OR NOT SubOperationMatches{{'Blob.List'}}", True),
    ],
)
def test_conditions_are_read_as_azure_reads_them(text, holds):
    assert role_condition.parse(text)(role_condition.Operation("read", "a", "")) is holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ActionMatches{read}", "'read' instead of a quoted text"),
        (f"({NAME} StringEquals 'a'", "'its end' instead of ')'"),
        (f"{NAME} StringEquals 'a' {NAME}", "in a wrong place"),
        (f"{NAME} StringMatches 'a'", "is not supported"),
        ("@Resource[x:tags] StringEquals 'a'", "@Resource[x:tags] is not supported"),
        (f"{NAME} == 'a'", "is malformed"),
        ("", "is not supported"),
        ("SubOperationMatches{'Blob.Write'}", "a suboperation that is not supported"),
    ],
)
def test_a_condition_of_another_form_is_refused(text, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        role_condition.parse(text)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """An Azure that asks for roles, with a cluster that has an identity."""
    with Simulator(tmp_path_factory.mktemp("azure"), replace(OPTIONS, roles=True)) as azure:
        declare(azure)
        azure.put(f"{ACCOUNT}/blobServices/default/containers/other", "", {})
        azure.put(IDENTITY, "", {"location": "westeurope"})
        attached = {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}}
        azure.put(CLUSTER, "", {**compute(), "identity": attached})
        give(azure, azure.environment["AZURE_CLIENT_ID"], CONTRIBUTOR, SUBSCRIPTION)
        yield azure


@pytest.fixture
def grant(guarded):
    """Gives roles, which are removed afterwards."""
    given, client = [], Client(guarded)

    def give(principal, role, scope=CONTAINER, **more):
        name = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{uuid.uuid4()}"
        definition = f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{role}"
        body = {
            "principalId": principal,
            "principalType": "ServicePrincipal",
            "roleDefinitionId": definition,
            **more,
        }
        assert client.put(name, {"properties": body}).status_code == 201
        given.append(name)
        return name

    yield give
    for name in given:
        client.ask("DELETE", name)


class Blobs:
    """Raw requests to blobs, as a program that has just been registered."""

    def __init__(self, azure, *groups):
        self._azure, self._client = azure, Client(azure)
        self.id, secret = azure.identity.add_client(groups=groups)
        self._headers = self._client.storage_headers(client_id=self.id, client_secret=secret)

    def ask(self, method, path, **params):
        url = f"{self._azure.blob_endpoint('teststore')}{path}"
        return self._client.session.request(
            method, url, data=b"x" if method == "PUT" else None, params=params,
            headers=self._headers,
        )  # fmt: skip

    def does(self, container="results"):
        """Statuses of writing, reading, listing and deleting a blob."""
        path = f"{container}/mine.txt"
        return [
            self.ask("PUT", path).status_code,
            self.ask("GET", path).status_code,
            self.ask("GET", container, restype="container", comp="list").status_code,
            self.ask("DELETE", path).status_code,
        ]


@pytest.fixture
def somebody(guarded):
    return Blobs(guarded)


def test_without_a_role_storage_refuses_as_azure_storage_does(somebody):
    answer = somebody.ask("PUT", "results/a.txt")
    assert answer.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"
    assert "<Code>AuthorizationPermissionMismatch</Code>" in answer.text
    assert "using this permission." in answer.text
    assert somebody.does() == [403, 403, 403, 403]


def test_a_reader_reads_and_a_contributor_writes(guarded, somebody, grant):
    guarded.blobs.container("teststore", "results").upload_blob("mine.txt", b"1", overwrite=True)
    grant(somebody.id, BLOB_DATA_READER)
    assert somebody.does() == [403, 200, 200, 403]
    grant(somebody.id, BLOB_DATA_CONTRIBUTOR)
    assert somebody.does() == [201, 200, 200, 202]
    assert somebody.does("other") == [403, 403, 403, 403]
    grant(somebody.id.upper(), BLOB_DATA_OWNER, GROUP.replace("resourceGroups", "resourcegroups"))
    assert somebody.does("other") == [201, 200, 200, 202]


def test_a_request_is_refused_where_the_condition_does_not_hold(guarded, somebody, grant):
    guarded.blobs.container("teststore", "other").upload_blob("mine.txt", b"1", overwrite=True)
    given = {"condition": WRITES_OWN, "conditionVersion": "2.0"}
    grant(somebody.id, BLOB_DATA_CONTRIBUTOR, OTHER, **given)
    assert somebody.does("other") == [403, 200, 200, 403]
    assert somebody.does("other/azureml")[:2] == [201, 200]


@pytest.mark.parametrize(
    "given",
    [{"condition": "ActionMatches", "conditionVersion": "2.0"}, {"condition": WRITES_OWN}],
    ids=["malformed", "no version"],
)
def test_an_assignment_with_a_wrong_condition_is_refused(guarded, given):
    path = f"{OTHER}/providers/Microsoft.Authorization/roleAssignments/{uuid.uuid4()}"
    definition = f"{SUBSCRIPTION}/providers/x/roleDefinitions/{BLOB_DATA_READER}"
    body = {"principalId": "me", "principalType": "User", "roleDefinitionId": definition, **given}
    response = Client(guarded).put(path, {"properties": body})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "RoleAssignmentConditionNotValid"


def test_containers_are_listed_by_who_has_a_role_on_the_account(somebody, grant):
    grant(somebody.id, BLOB_DATA_READER)
    assert somebody.ask("GET", "", comp="list").status_code == 403
    grant(somebody.id, BLOB_DATA_READER, ACCOUNT)
    assert somebody.ask("GET", "", comp="list").status_code == 200


def test_members_of_a_group_have_its_roles_once_they_are_in_it(guarded, somebody, grant):
    team = str(uuid.uuid4())
    grant(team, BLOB_DATA_CONTRIBUTOR)
    assert somebody.does() == [403, 403, 403, 403]
    guarded.identity.join(somebody.id, team)
    assert somebody.does() == [201, 200, 200, 202]
    assert Blobs(guarded, team).does() == [201, 200, 200, 202]


def test_a_role_that_is_removed_is_missing_at_once(guarded, somebody, grant):
    name = grant(somebody.id, BLOB_DATA_CONTRIBUTOR)
    assert somebody.does()[0] == 201
    assert Client(guarded).ask("DELETE", name).status_code == 200
    assert somebody.does() == [403, 403, 403, 403]


def test_a_signature_needs_no_role(guarded):
    results = guarded.blobs.container("teststore", "results")
    results.upload_blob("signed.txt", b"signed", overwrite=True)
    url = guarded.blobs.signed_blob("teststore", "results", "signed.txt")
    session = Client(guarded).session
    assert session.get(url, headers={"Authorization": None}).content == b"signed"


def folder(kind, path):
    return {f"job{kind}Type": "uri_folder", "mode": "Mount", "uri": f"{RESULTS}/{path}"}


def failure(client, name):
    ended = client.wait(name)
    assert ended["status"] == "Failed"
    assert ended["error"]["error"]["code"] == "UserError"
    assert ended["logFiles"] == {}, "its program was started"
    return ended["error"]["error"]["message"]


@pytest.fixture
def training(guarded):
    """The cluster's identity."""
    return guarded.resources.get(IDENTITY)["properties"]


def test_a_job_opens_what_its_clusters_identity_may_open(guarded, training, grant):
    client = Client(guarded)
    guarded.blobs.container("teststore", "results").upload_blob("in/1", b"one", overwrite=True)
    given = {"inputs": {"data": folder("Input", "in")}, "outputs": {"run": folder("Output", "out")}}
    line = "cat ${{inputs.data}}/1 | tee ${{outputs.run}}/1"
    client.job("nothing", line, **given)
    said = failure(client, "nothing")
    for part in ("input data", "container results of teststore", "to read", "acts as training",
                 "AuthorizationPermissionMismatch"):  # fmt: skip
        assert part in said
    grant(training["principalId"], BLOB_DATA_READER)
    client.job("reads", line, **given)
    assert "to write the job's output run" in failure(client, "reads")
    grant(training["principalId"], BLOB_DATA_CONTRIBUTOR, ACCOUNT)
    client.job("writes", line, **given)
    assert client.wait("writes")["status"] == "Completed"
    assert client.log("writes") == "one"


def test_only_who_has_a_role_on_a_workspace_changes_its_jobs_and_assets(guarded, grant):
    other = f"{WORKSPACE}-of-others"
    guarded.put(other, "", {"location": "westeurope", "properties": {"storageAccount": ACCOUNT}})
    client = Client(guarded)
    client_id, secret = guarded.identity.add_client()
    token = client.token(client_id=client_id, client_secret=secret).json()["access_token"]
    client.session.headers["Authorization"] = f"Bearer {token}"

    def register(workspace):
        version = {"properties": {"image": "x:1"}}
        return client.put(f"{workspace}/environments/mine/versions/1", version).status_code

    answer = client.job("mine", "true")
    assert error(answer) == (403, "AuthorizationFailed")
    said = answer.json()["error"]["message"]
    assert "'Microsoft.MachineLearningServices/workspaces/jobs/write'" in said
    assert f"over scope '{WORKSPACE}'" in said
    grant(client_id, BLOB_DATA_OWNER, WORKSPACE)
    grant(client_id, DATA_SCIENTIST, other)
    assert (register(other), register(WORKSPACE)) == (201, 403)
    assert client.job("mine", "true").status_code == 403
    grant(client_id, DATA_SCIENTIST, WORKSPACE)
    assert register(WORKSPACE) == 201
    assert client.job("mine", "true").status_code == 201


def test_a_role_that_someone_defined_allows_what_it_does_not_exclude(guarded, grant):
    client, guid = Client(guarded), str(uuid.uuid4())
    client_id, secret = guarded.identity.add_client()
    own = Client(guarded)
    token = own.token(client_id=client_id, client_secret=secret).json()["access_token"]
    own.session.headers["Authorization"] = f"Bearer {token}"
    action = "Microsoft.MachineLearningServices/workspaces"
    grant(client_id, guid, WORKSPACE)
    for excluded, status in ((["jobs/write"], 403), (["computes/*/write", "computes/write"], 201)):
        permission = {
            "actions": [f"{action}/*/write"],
            "notActions": [f"{action}/{one}" for one in excluded],
        }
        body = {"roleName": "mine", "permissions": [permission], "assignableScopes": [SUBSCRIPTION]}
        at = f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{guid}"
        assert client.put(at, {"properties": body}).status_code == 201
        assert own.job("defined", "true").status_code == status


def test_an_output_without_an_address_is_in_the_workspaces_container(guarded, grant, training):
    client = Client(guarded)
    grant(training["principalId"], BLOB_DATA_CONTRIBUTOR)
    client.job("own", "true", outputs={"run": {"jobOutputType": "uri_folder"}})
    assert "container azureml-blobstore-" in failure(client, "own")


def test_a_job_acts_as_its_submitter_if_it_says_so(guarded, grant):
    client = Client(guarded)
    given = {"identity": {"identityType": "UserIdentity"}, "inputs": {"d": folder("Input", "in")}}
    me = guarded.environment["AZURE_CLIENT_ID"]
    client.job("me", "true", **given)
    assert f"acts as {me}" in failure(client, "me")
    grant(me, BLOB_DATA_READER)
    client.job("me-again", "true", **given)
    assert client.wait("me-again")["status"] == "Completed"


def test_a_job_cannot_act_as_what_its_cluster_does_not_have(guarded, grant, training):
    client = Client(guarded)
    grant(training["principalId"], BLOB_DATA_READER)
    for name, client_id, status in (
        ("its-own", training["clientId"], "Completed"),
        ("another", str(uuid.uuid4()), "Failed"),
    ):
        client.job(
            name,
            "true",
            identity={"identityType": "Managed", "clientId": client_id},
            inputs={"d": folder("Input", "in")},
        )
        assert client.wait(name)["status"] == status
    assert "The cluster cluster has no identity of client id" in failure(client, "another")


def test_a_cluster_without_an_identity_opens_nothing(guarded):
    guarded.put(f"{WORKSPACE}/computes/bare", "", compute())
    client = Client(guarded)
    given = {"computeId": f"{WORKSPACE}/computes/bare", "inputs": {"d": folder("Input", "in")}}
    client.job("bare", "true", **given)
    assert "The cluster bare has no identity." in failure(client, "bare")
    client.job("needs-nothing", "true", computeId=given["computeId"])
    assert client.wait("needs-nothing")["status"] == "Completed"


@pytest.mark.parametrize(
    ("isolated", "names"),
    [
        (False, {"azureml", "azureml-blobstore-{}"}),
        (True, {"{}-azureml", "{}-azureml-blobstore"}),
    ],
)
def test_a_role_can_be_given_on_the_containers_of_a_workspace(guarded, grant, isolated, names):
    path = f"{WORKSPACE}-{isolated}"
    properties = {"storageAccount": ACCOUNT, "enableDataIsolation": isolated}
    made = guarded.put(path, "", {"location": "westeurope", "properties": properties})
    guid = made["properties"]["workspaceId"]
    stores = ("workspaceblobstore", "workspaceartifactstore")
    documents = [guarded.resources.get(f"{path}/datastores/{store}") for store in stores]
    containers = {one["properties"]["containerName"] for one in documents}
    assert containers == {name.format(guid) for name in names}
    for container in containers:
        grant("me", BLOB_DATA_READER, f"{ACCOUNT}/blobServices/default/containers/{container}")
