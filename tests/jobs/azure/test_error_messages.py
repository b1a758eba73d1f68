"""Each of Azure's errors is explained with its cause and what to do."""

from types import SimpleNamespace

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)

from jobs.azure.error_messages import explained
from jobs.errors import (
    AccessError,
    ConflictError,
    MissingError,
    RequestError,
    SignInError,
    UnreachableError,
)
from tests.jobs.support.platform import platform

ARM = "https://management.azure.com/subscriptions/s"
BLOB = "https://account.blob.core.windows.net/results/x"


def answered(status, message="said so", url=ARM, kind=HttpResponseError):
    response = SimpleNamespace(status_code=status, reason="", request=SimpleNamespace(url=url))
    error = kind(message=message)
    error.response, error.status_code = response, status
    return error


def told(error, profile="private", who="somebody@example.com"):
    return explained(error, "job night-r1", platform(profile=profile), lambda: who)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, SignInError), (403, AccessError), (404, MissingError), (409, ConflictError),
     (412, ConflictError), (429, UnreachableError), (503, UnreachableError),
     (400, RequestError)],
)  # fmt: skip
def test_each_status_has_its_error_that_names_the_thing_and_azures_words(status, kind):
    error = told(answered(status))
    assert type(error) is kind
    assert error.status == status
    assert error.exit_code == (1 if status == 404 else 22)
    assert "job night-r1" in str(error)
    assert "said so" in str(error)


def test_a_role_that_is_missing_is_named_with_the_person():
    text = str(told(answered(403)))
    assert "somebody@example.com" in text
    assert "AzureML Data Scientist" in text
    assert "people.scientists" in text


ML = "Microsoft.MachineLearningServices"


@pytest.mark.parametrize(
    ("action", "of_scientists"),
    [
        (f"{ML}/workspaces/read", True),
        (f"{ML}/workspaces/jobs/write", True),
        (f"{ML}/workspaces/computes/read", True),
        (f"{ML}/workspaces/delete", False),
        (f"{ML}/workspaces/computes/delete", False),
        (f"{ML}/locations/vmSizes/read", False),
        ("Microsoft.KeyVault/vaults/secrets/getSecret/action", False),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        "The client 'x' does not have authorization to perform action '{}' over scope '/s'",
        "Caller is not authorized to perform action on resource.\nAction: '{}'\nResource: '/v'",
    ],
)
def test_an_action_that_no_scientist_has_asks_for_another_role(words, action, of_scientists):
    text = str(told(answered(403, words.format(action))))
    assert ("AzureML Data Scientist" in text) is of_scientists
    assert (f"needs a role with the action {action}" in text) is not of_scientists


@pytest.mark.parametrize(
    ("message", "url"),
    [
        ("said so", BLOB),
        ("AuthorizationPermissionMismatch", "https://storage.example.org/account/results/x"),
    ],
    ids=["by its host", "by its code"],
)
def test_a_role_on_blobs_is_another_and_the_groups_that_have_it_are_named(message, url):
    text = str(told(answered(403, message, url)))
    assert "somebody@example.com" in text
    assert "Storage Blob Data" in text
    assert "AzureML Data Scientist" not in text
    for group in ("people.scientists", "people.publishers"):
        assert group in text


def test_a_network_that_is_not_let_in_is_no_question_of_roles():
    error = answered(403, "Public network access is disabled for this resource", BLOB)
    assert "is private" in str(told(error))
    assert "role" not in str(told(error))
    assert "20.103.0.0/24" in str(told(error, profile="allowlisted"))


def test_a_missing_workspace_is_told_with_where_it_was_looked_for():
    text = str(told(answered(404)))
    for part in (platform().workspace, platform().resource_group, platform().subscription_id):
        assert part in text


def test_nobody_signed_in_is_told_with_the_command():
    error = ClientAuthenticationError(message="DefaultAzureCredential failed to retrieve a token")
    assert isinstance(told(error), SignInError)
    assert f"az login --tenant {platform().tenant_id}" in str(told(error))


def test_a_secret_that_is_refused_is_a_question_of_the_sign_in():
    url = "https://login.microsoftonline.com/t/oauth2/v2.0/token"
    error = answered(401, "AADSTS7000215: Invalid client secret", url, ClientAuthenticationError)
    assert isinstance(told(error), SignInError)
    assert "not signed in" in str(told(error))


@pytest.mark.parametrize(
    ("message", "profile", "advice"),
    [
        ("host='w.workspace.westeurope.api.azureml.ms', port=443: Name or service not known",
         "private", "VPN"),
        ("host='account.blob.core.windows.net', port=443: timed out", "allowlisted",
         "allowed_addresses"),
        ("host='management.azure.com', port=443: Name or service not known", "private",
         "this machine's network"),
    ],
)  # fmt: skip
def test_no_answer_is_explained_by_the_stacks_network(message, profile, advice):
    error = told(ServiceRequestError(message), profile)
    assert isinstance(error, UnreachableError)
    assert advice in str(error)


def test_a_network_that_is_away_for_a_token_is_no_question_of_the_sign_in():
    error = ClientAuthenticationError(message="EnvironmentCredential: authentication failed")
    error.__cause__ = ServiceRequestError("host='login.microsoftonline.com', port=443: timed out")
    assert isinstance(told(error), UnreachableError)


def test_what_the_sdk_refuses_is_told_without_its_general_advice():
    error = AzureError("\n1) One or more fields are invalid\n\nDetails:\n\n(x) no such thing\n\nx")
    assert str(told(error)) == "job night-r1: no such thing"


TRIED = """DefaultAzureCredential failed to retrieve a token from the included credentials.
Attempted credentials:
\tEnvironmentCredential: %s
\tManagedIdentityCredential: authentication unavailable, no response from the IMDS endpoint.
\tAzureCliCredential: Azure CLI not found on path
To mitigate this issue, please refer to the troubleshooting guidelines here at https://aka.ms."""


def test_the_way_to_sign_in_that_was_tried_says_why_it_failed():
    error = ClientAuthenticationError(message=TRIED % "AADSTS7000215: Invalid client secret")
    assert isinstance(told(error), SignInError)
    assert "not signed in to Azure: AADSTS7000215: Invalid client secret\n" in str(told(error))
    away = "HTTPSConnection(host='login', port=443): Failed to establish a new connection"
    assert isinstance(told(ClientAuthenticationError(message=TRIED % away)), UnreachableError)


CLAIMS = "eyJhY2Nlc3NfdG9rZW4iOnsiYWNycyI6eyJlc3NlbnRpYWwiOnRydWUsInZhbHVlIjoicDEifX19"
LOGIN = f'az login --tenant "t" --scope "https://a//.default" --claims-challenge "{CLAIMS}"'


def challenged(header=f'Bearer realm="", error="insufficient_claims", claims="{CLAIMS}"'):
    """The refusal of a change by a sign-in without a second factor."""
    error = answered(401, "the request demands more claims")
    error.response.headers = {"WWW-Authenticate": header}
    return error


def by_credential(text, cause=None):
    error = ClientAuthenticationError(text)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (challenged(), f'az login --tenant {platform().tenant_id} --claims-challenge "{CLAIMS}"'),
        (by_credential("DefaultAzureCredential failed to retrieve a token", challenged()),
         f'az login --tenant {platform().tenant_id} --claims-challenge "{CLAIMS}"'),
        (by_credential("Attempted credentials:\n\tAzureCliCredential: Failed to invoke the Azure"
                       f" CLI: please run\n{LOGIN}\nfor more"), LOGIN),
        (by_credential("\tAzureCliCredential: This credential doesn't support claims challenges."
                       f" Run: az login --claims-challenge {CLAIMS}", challenged()),
         f"az login --tenant {platform().tenant_id} --claims-challenge {CLAIMS}"),
        (by_credential("\tAzureCliCredential: AADSTS50076: you must use multi-factor"
                       " authentication"), f"az login --tenant {platform().tenant_id}"),
        (answered(403, "Resource 'x' was disallowed by Azure: Users must use MFA for Create"
                       " operation. Refer to https://aka.ms/mfaforazure"),
         f"az login --tenant {platform().tenant_id}"),
    ],
)  # fmt: skip
def test_a_demand_for_a_second_factor_passes_on_the_command_that_signs_in(error, command):
    problem = told(error)
    assert type(problem) is SignInError
    first, second = str(problem).splitlines()
    assert command in first
    assert "second factor" in second


@pytest.mark.parametrize("said", ["is not yet valid", "has expired"])
def test_a_certificate_of_another_time_is_a_matter_of_the_clock(said):
    text = str(told(ServiceRequestError(f"certificate verify failed: certificate {said}")))
    assert "check this machine's clock" in text
    assert "proxy" not in text


def test_another_refusal_of_a_token_demands_no_second_factor():
    text = str(told(challenged('Bearer authorization_uri="https://login", error="invalid_token"')))
    assert "rejects this sign-in" in text
    assert "second factor" not in text
