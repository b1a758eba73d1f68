"""The example of docs/rehearse-without-azure.md, run in the folder of another project."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.__main__ import main
from tests import ROOT

PAGE = (ROOT / "docs" / "rehearse-without-azure.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("## Example")[1].split("\n## ")[0]


def serve(folder, *arguments):
    """Run `serve` in the folder of another project."""
    return subprocess.run(
        [sys.executable, "-m", "rehearsal", "serve", *arguments],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.rehearse_all
@pytest.mark.without_engine
def test_the_example_passes_as_it_is_printed(tmp_path):
    for language, name in (("json", "azure.json"), ("python", "test_words.py")):
        (content,) = re.findall(rf"```{language}\n(.*?)```", EXAMPLE, re.DOTALL)
        (tmp_path / name).write_text(content)
    (line,) = re.findall(
        r"\n    CLONE/.venv/bin/python -m rehearsal serve (.*?)\n\n", EXAMPLE, re.DOTALL
    )
    words = f"printf '%s\\n' {line}".replace("\\\n", " ")
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = subprocess.run(
        ["sh", "-c", words], env=path, capture_output=True, text=True, check=True
    )
    done = serve(tmp_path, *shell.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


RESOURCES = {"/subscriptions/s/resourceGroups/rg": {"location": "westeurope"}}
ASK = """
import json, os, sys
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

url = os.environ["AZURE_AUTHORITY_HOST"]
form = {"grant_type": "client_credentials", "client_id": os.environ["AZURE_CLIENT_ID"],
        "client_secret": os.environ["AZURE_CLIENT_SECRET"], "scope": url + "/.default"}
tenant = f"/{os.environ['AZURE_TENANT_ID']}/oauth2/v2.0/token"
token = json.load(urlopen(url + tenant, urlencode(form).encode()))["access_token"]


def get(path):
    signed = Request(url + path, headers={"Authorization": f"Bearer {token}"})
    try:
        return json.load(urlopen(signed))
    except HTTPError as error:
        return error.code, json.load(error)["error"]["code"]


group = "/subscriptions/s/resourceGroups/rg"
usages = "/subscriptions/s/providers/Microsoft.MachineLearningServices/locations/westeurope/usages"
low = [one["limit"] for one in get(usages)["value"] if "LowPriority" in one["name"]["value"]]
print(get(group)["location"], low, *get(group + "/providers/Microsoft.KeyVault/vaults"))
sys.exit(7)
"""


def test_the_command_finds_resources_quota_and_denials_and_its_status_is_kept(tmp_path):
    (tmp_path / "azure.json").write_text(json.dumps(RESOURCES))
    quota = ("--quota", "westeurope:totalLowPriorityCores=24")
    deny = ("--deny", "GET .*/Microsoft.KeyVault/")
    given = ("--resources", "azure.json", *quota, *deny)
    done = serve(tmp_path, *given, "--", sys.executable, "-c", ASK)
    assert (done.returncode, done.stdout) == (7, "westeurope [24] 403 AuthorizationFailed\n"), done


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--quota", "24"), "'24' must be REGION:NAME=CORES"),
        (("--deny", "("), "--deny: '(': missing )"),
        (("--resources", "none.json"), "--resources: none.json: "),
        (("--resources", "list.json"), "list.json: must be a JSON object of bodies by their ids"),
        (("--resources", "wrong.json"), "vaults/x: Resource group 'none' could not be found."),
        ((), "no-such-program: cannot be run (No such file or directory)"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, monkeypatch, capsys, arguments, error):
    (tmp_path / "list.json").write_text("[]")
    vault = "/subscriptions/s/resourceGroups/none/providers/Microsoft.KeyVault/vaults/x"
    (tmp_path / "wrong.json").write_text(json.dumps({vault: {}}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["serve", *arguments, "--", "no-such-program"]))
    assert ended.value.code in {1, 2}
    assert error in capsys.readouterr().err
