"""Who authenticates, with which token, and what leads a client to its token."""

import requests

from tests.rehearsal.support.small_platform import WORKSPACE, error


def test_a_wrong_secret_is_refused(client):
    answer = client.token(client_secret="wrong")
    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_client"
    assert client.token(client_id="nobody").status_code == 400


def test_a_secret_can_be_an_argument_of_a_command(azure):
    """`az login --password SECRET` takes a secret that begins with a hyphen for an option."""
    secrets = [azure.identity.add_client()[1] for _ in range(500)]
    assert all(secret.isalnum() for secret in secrets)


def test_a_request_without_a_token_is_refused(client):
    client.session.headers.pop("Authorization")
    assert error(client.get(WORKSPACE)) == (401, "AuthenticationFailed")


def test_a_foreign_an_expired_and_a_storage_token_are_refused(client, azure):
    name = azure.environment["AZURE_CLIENT_ID"]
    expired = azure.identity.token(name, azure.url, -10)
    foreign = expired.rpartition(".")[0] + ".AAAA"
    storage = azure.identity.token(name, "https://storage.azure.com")
    codes = []
    for token in (expired, foreign, storage):
        client.session.headers["Authorization"] = f"Bearer {token}"
        codes.append(error(client.get(WORKSPACE)))
    assert codes == [
        (401, "ExpiredAuthenticationToken"),
        (401, "InvalidAuthenticationToken"),
        (401, "InvalidAuthenticationTokenAudience"),
    ]


def test_metadata_needs_no_token(azure):
    session = requests.Session()
    session.trust_env = False
    session.verify = str(azure.certificate.bundle)

    def clouds(version):
        query = {"api-version": version}
        return session.get(f"{azure.url}/metadata/endpoints", params=query).json()

    # The SDK for Python asks as in 2019, az and the SDK for Go as since then.
    assert clouds("2019-05-01") == [clouds("2022-09-01")]
    assert clouds("2022-09-01")["resourceManager"] == f"{azure.url}/"
