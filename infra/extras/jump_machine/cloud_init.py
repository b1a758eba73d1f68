"""How a jump machine sets itself up: the cloud-init configuration of a Debian 12 machine.

Debian 12 has the Python that the project runs on. The machine holds no secret: its users sign in to
Azure as themselves. Not tried: the machine has never been created on Azure.
"""

import base64
import json
from typing import Final

HOSTS: Final = (
    "deb.debian.org",
    "packages.microsoft.com",
    "get.pulumi.com",
    "github.com",
    "release-assets.githubusercontent.com",
    "pypi.org",
    "files.pythonhosted.org",
)
"""Hosts that the setup fetches from, besides that of the repository, over ports 80 and 443; a
firewall between the machine and the internet must let them through."""
PULUMI_VERSION: Final = "3.259.0"
MICROSOFT_KEY: Final = "2fa9c05d591a1582a9aba276272478c262e95ad00acf60eaee1644d93941e3c6"
"""SHA-256 of the key that signs Microsoft's packages, BC528686B50D79E339D3721CEB3E94ADBE1229CF; APT
checks the packages with it."""
FOLDER: Final = "/opt/platform"
"""Where the machine keeps its clone of the repository."""

PACKAGES: Final = (
    *("ca-certificates", "curl", "git", "gpg"),
    *("make", "g++", "python3", "python3-dev", "python3-venv"),
)
"""Debian's packages for the setup; the second line is what scripts/check-machine asks for."""

SETUP: Final = "/usr/local/sbin/set-up-jump-machine"
LOG: Final = "/var/log/jump-machine.log"

_SCRIPT: Final = """\
#!/bin/sh
# Installs the Azure CLI and Pulumi, and sets up the repository; safe to run again.
set -eu
folder=$(mktemp --directory)
trap 'rm -r "$folder"' EXIT
cd "$folder"
fetch() {{ curl --fail --silent --show-error --location --remote-name "$1"; }}
fetch https://packages.microsoft.com/keys/microsoft.asc
echo "{key}  microsoft.asc" | sha256sum --check --quiet
gpg --batch --yes --dearmor --output /etc/apt/keyrings/microsoft.gpg microsoft.asc
echo "deb [arch=amd64 signed-by=/etc/apt/keyrings/microsoft.gpg] \
https://packages.microsoft.com/repos/azure-cli/ bookworm main" \\
  > /etc/apt/sources.list.d/azure-cli.list
apt-get update
apt-get install --yes --no-install-recommends azure-cli
fetch https://get.pulumi.com/releases/sdk/pulumi-v{pulumi}-linux-x64.tar.gz
# The list of the release is on another host than the archive.
fetch https://github.com/pulumi/pulumi/releases/download/v{pulumi}/pulumi-{pulumi}-checksums.txt
grep --fixed-strings "  pulumi-v{pulumi}-linux-x64.tar.gz" pulumi-{pulumi}-checksums.txt > expected
sha256sum --check --quiet expected
tar --extract --gzip --strip-components 1 --directory /usr/local/bin \\
  --file pulumi-v{pulumi}-linux-x64.tar.gz
cd /
{repository}echo "the jump machine is set up"
"""
_REPOSITORY: Final = """\
test -d {folder}/.git || git clone --quiet {url} {folder}
git -C {folder} checkout --quiet {revision}
make -C {folder} setup-platform
"""


def script(repository: str | None, revision: str) -> str:
    """Return the shell script that sets the machine up.

    Args:
        repository: https:// address of the repository to clone; None clones none.
        revision: Branch, tag or commit to check out.
    """
    part = ""
    if repository is not None:
        part = _REPOSITORY.format(folder=FOLDER, url=repository, revision=revision)
    return _SCRIPT.format(key=MICROSOFT_KEY, pulumi=PULUMI_VERSION, repository=part)


def configuration(repository: str | None, revision: str) -> str:
    """Return the cloud-init configuration, as YAML: its JSON is YAML too.

    `users: []` makes no account, so the key that Azure demands is of no use; Entra's extension
    makes accounts as people sign in.
    """
    settings = {
        "users": [],
        "ssh_pwauth": False,
        "disable_root": True,
        "package_update": True,
        "package_upgrade": True,
        "packages": list(PACKAGES),
        "write_files": [
            {"path": SETUP, "permissions": "0755", "content": script(repository, revision)}
        ],
        "runcmd": [["sh", "-c", f"{SETUP} > {LOG} 2>&1"]],
    }
    return "#cloud-config\n" + json.dumps(settings, indent=2) + "\n"


def encoded(repository: str | None, revision: str) -> str:
    """Return the configuration as Azure takes it: in Base64."""
    return base64.b64encode(configuration(repository, revision).encode()).decode()
