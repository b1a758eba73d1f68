"""The documented path from an empty subscription to a first run, as a newcomer walks it."""

import re
from dataclasses import replace

import pytest

from rehearsal.pulumi.deployment import Deployment
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.rehearsal.scenarios.cloud import GROUPS, OPTIONS
from tests.rehearsal.support.newcomer import Newcomer, blocks

pytestmark = pytest.mark.rehearse_all

PAGE = "first-training-on-azure.md"
SCIENTISTS = "0d6b1f6e-0000-4000-8000-000000000002"


def providers(page):
    """The names in the loop that registers providers."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split("for provider in ")[1].split("; do")[0].replace("\\", " ").split()


def answers(profile, tenant, user):
    """Answers of programs that are not installed here, by command line."""
    (subscription,) = re.findall(r"export SUBSCRIPTION=(\S+)", blocks(PAGE, "first training")[0])
    az = {
        "login": "",
        "account list --output table": "",
        f"account set --subscription {subscription}": "",
        "account show --query id --output tsv": subscription,
        "account show --query tenantId --output tsv": tenant,
        **{f"provider register --wait --namespace Microsoft.{one}": "" for one in providers(PAGE)},
        "ad signed-in-user show --query id --output tsv": user,
        "ad group create --display-name ml-scientists --mail-nickname ml-scientists": "",
        f"ad group member add --group ml-scientists --member-id {user}": "",
        "ad group show --group ml-scientists --query id --output tsv": SCIENTISTS,
    }
    if profile == "private":
        az["feature register --namespace Microsoft.Compute --name EncryptionAtHost"] = ""
        for one in ("Compute", "DevTestLab"):
            az[f"provider register --wait --namespace Microsoft.{one}"] = ""
    return {f"az {line}": answer for line, answer in az.items()}


@pytest.mark.parametrize("profile", ["private", "allowlisted"])
def test_each_command_of_the_first_path_works_in_its_order(profile, tmp_path):
    with (
        Simulator(tmp_path / "azure", replace(OPTIONS, roles=True)) as azure,
        Deployment(azure, tmp_path / "engine") as engine,
    ):
        user = azure.environment["AZURE_CLIENT_ID"]
        azure.identity.join(user, SCIENTISTS)
        replies = answers(profile, azure.environment["AZURE_TENANT_ID"], user)
        newcomer = Newcomer(tmp_path, engine, replies)
        parts = (
            "first training",
            *(f"first training: {p}" for p in (profile, "deploy", "train", "delete")),
        )
        said = newcomer.run("\n".join(one for part in parts for one in blocks(PAGE, part)))
        assert sorted(set(newcomer.asked)) == sorted(replies)
        for part in (
            "ready: .venv (Pulumi, Azure SDK)",
            "stack dev: workspace hvd-dev-ml-",
            "first-r1: training completed",
        ):
            assert part in said
        assert list((newcomer.clone / "runs").glob("first/**/result.json")), said
        assert ("jump machine hvd-dev-jump" in said) == (profile == "private")
        assert azure.resources.of_kind(GROUPS) == []


def test_the_path_registers_the_providers_that_a_deployment_needs():
    assert set(providers(PAGE)) == set(providers("deploy-the-platform.md"))
