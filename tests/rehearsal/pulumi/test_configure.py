"""`make configure` pins a stack, and without it nothing is deployed."""

import os
import subprocess

import pytest

from rehearsal.pulumi.deployment import ROOT, Deployment
from tests.rehearsal.support.engine import ran

pytestmark = [pytest.mark.slow, pytest.mark.rehearse_all]

PINS = {
    "id": "44444444-4444-4444-8444-444444444444",
    "tenantId": "55555555-5555-4555-8555-555555555555",
}
AZ = "\n".join(
    f'[ "$*" = "account show --query {key} --output tsv" ] && echo {value}'
    for key, value in PINS.items()
)


def test_a_stack_is_pinned_to_where_the_azure_cli_is_signed_in(empty_azure, tmp_path):
    with Deployment(empty_azure, tmp_path / "stack") as stack:
        ran(stack, "config", "rm", "--path", "subscription.id")
        refused = stack.run("preview")
        assert refused.returncode != 0
        assert "subscription.id: is missing" in refused.stdout
        assert "`make configure STACK=NAME`" in refused.stdout

        (tmp_path / "bin").mkdir()
        az = tmp_path / "bin" / "az"
        az.write_text(f"#!/bin/sh\n{AZ}\ntrue\n")
        az.chmod(0o755)
        environment = stack.command_environment
        environment["PATH"] = f"{az.parent}{os.pathsep}{environment['PATH']}"
        made = subprocess.run(
            ["make", "configure", "STACK=dev"],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        for key, pin in zip(("id", "tenant"), PINS.values(), strict=True):
            assert ran(stack, "config", "get", "--path", f"subscription.{key}").strip() == pin
