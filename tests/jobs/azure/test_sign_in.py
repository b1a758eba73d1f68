"""The signed-in user is read from the token."""

import base64
import json

import pytest
from azure.core.credentials import AccessToken

from jobs.azure.sign_in import PinnedCredential, about_changes, name_in_token
from jobs.errors import SignInError


def token(claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.x"


def test_the_name_in_a_token_is_a_persons_before_a_programs():
    assert name_in_token(token({"appid": "1", "upn": "a@b.c"})) == "a@b.c"
    assert name_in_token(token({"appid": "1", "oid": "2"})) == "1"


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.%%%.c", token({})])
def test_a_token_without_a_name_has_none(text):
    assert name_in_token(text) is None


class SignedIn:
    """A credential of a user of one tenant."""

    def __init__(self, tenant):
        self.tenant = tenant

    def get_token(self, *_scopes, **_options):
        return AccessToken(token({"upn": "a@b.c", "tid": self.tenant}), 0)


def test_a_token_of_the_stacks_tenant_is_used():
    assert PinnedCredential(SignedIn("one"), "ONE").get_token("scope").expires_on == 0


def test_a_token_of_another_tenant_is_refused_with_both_named():
    with pytest.raises(SignInError, match=r"signed in to tenant two as a@b.c, .* to tenant one"):
        PinnedCredential(SignedIn("two"), "one").get_token("scope")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"upn": "a@b.c", "idtyp": "user", "amr": ["pwd"]}, "az login --tenant T"),
        ({"upn": "a@b.c", "amr": ["pwd", "mfa"]}, "does not prove"),
        ({"upn": "a@b.c"}, "does not prove"),
        ({"appid": "1", "idtyp": "app"}, ""),
        ({"appid": "1"}, ""),
    ],
)
def test_what_a_sign_in_that_reads_does_not_prove_is_said_to_people(claims, words):
    said = about_changes(token(claims), "T")
    assert words in said
    assert bool(said) == bool(words)
