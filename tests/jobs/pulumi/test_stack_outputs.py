"""Outputs are read from Pulumi or a file, and errors say what is missing."""

import json

import pytest

from infra.outputs import to_dict
from jobs.errors import NotDeployedError, PlatformReadError
from jobs.pulumi.stack_outputs import read_outputs
from tests.jobs.support.platform import platform


def test_a_stack_is_asked_by_its_name(pulumi, tmp_path):
    asked = pulumi(stack_output={"out": json.dumps(to_dict(platform()))})
    assert read_outputs(tmp_path, "prod", None) == platform()
    assert asked() == ["stack output platform --json --stack prod --non-interactive"]


def test_a_file_is_read_instead_in_both_forms(tmp_path):
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(to_dict(platform())))
    assert read_outputs(tmp_path, None, str(file)) == platform()
    file.write_text(json.dumps({"platform": to_dict(platform())}))
    assert read_outputs(tmp_path, None, str(file)) == platform()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("error: no stack named 'dev' found",
         "`pulumi stack init dev --secrets-provider ...`, and deploy it with `make up STACK=dev`"),
        ("error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE"),
        ("error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions",
         "pulumi login"),
        ("error: current stack does not have output property 'platform'", "has never completed"),
        ("error: something else", "could not read stack dev: something else"),
    ],
)  # fmt: skip
def test_what_pulumi_says_is_told_with_what_to_do(pulumi, tmp_path, said, advice):
    pulumi(stack_output={"err": said, "status": 255})
    with pytest.raises(PlatformReadError) as error:
        read_outputs(tmp_path, "dev", None)
    assert advice in str(error.value)
    assert said.removeprefix("error: ") in str(error.value)
    assert error.value.exit_code == 4


def test_a_missing_pulumi_is_told_with_the_way_around_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformReadError, match=r"not found on the PATH.*--outputs"):
        read_outputs(tmp_path, "dev", None)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"workspace": 1}'])
def test_a_file_that_holds_no_outputs_is_refused_with_its_name(tmp_path, text):
    file = tmp_path / "outputs.json"
    file.write_text(text)
    with pytest.raises(PlatformReadError, match=r"outputs\.json"):
        read_outputs(tmp_path, None, str(file))


def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path):
    with pytest.raises(PlatformReadError, match=r"nowhere\.json: No such file"):
        read_outputs(tmp_path, None, str(tmp_path / "nowhere.json"))


@pytest.mark.parametrize(
    "said", ["no stack named 'dev' found", "current stack does not have output property 'platform'"]
)
def test_a_stack_that_exports_nothing_is_told_from_one_that_cannot_be_read(pulumi, tmp_path, said):
    pulumi(stack_output={"err": said, "status": 255})
    with pytest.raises(NotDeployedError):
        read_outputs(tmp_path, "dev", None)
    pulumi(stack_output={"err": "incorrect passphrase", "status": 255})
    with pytest.raises(PlatformReadError) as error:
        read_outputs(tmp_path, "dev", None)
    assert not isinstance(error.value, NotDeployedError)
