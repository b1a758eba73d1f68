"""The signed-in user is read from the token."""

import base64
import json

import pytest

from jobs.azure.sign_in import name_in_token


def token(claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.x"


def test_the_name_in_a_token_is_a_persons_before_a_programs():
    assert name_in_token(token({"appid": "1", "upn": "a@b.c"})) == "a@b.c"
    assert name_in_token(token({"appid": "1", "oid": "2"})) == "1"


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.%%%.c", token({})])
def test_a_token_without_a_name_has_none(text):
    assert name_in_token(text) is None
