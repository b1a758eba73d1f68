"""A clean clone on the machine of a newcomer, and the commands of a document."""

import os
import re
import shlex
import subprocess

from tests import ROOT
from tests.rehearsal.support.waiting import SECONDS

LEFT_OUT = (
    "JOBS_TEARDOWN_FOLDER",
    "PULUMI_BACKEND_URL",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    "PULUMI_OPTION_CONFIG_FILE",
    "PULUMI_STACK",
)
"""Variables that a rehearsed stack sets for its commands, and the documents' commands set
themselves."""
INSTALLED = (".venv", ".tools/uv")
"""What `make setup-platform` installs. It is linked, because installing it takes minutes."""


def blocks(document, name):
    """Texts of the indented blocks between `<!-- NAME -->` and `<!-- end -->` of a document."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    marked = text.split(f"<!-- {name} -->\n")[1].split("<!-- end -->")[0]
    found = re.findall(r"(?:^    .*\n)+", marked, re.MULTILINE)
    assert found, f"{document} has no commands between the markers of {name}"
    return [re.sub("^    ", "", block, flags=re.MULTILINE) for block in found]


class Newcomer:
    """A newcomer with a clone, who has the programs that a document asks for.

    Args:
        folder: Folder for the clone and for all that its owner's programs write.
        deployment: Its engine, and the provider that stands in for azure-native.
        answers: Output of the programs that stand in for those that are not installed here, such
            as the Azure CLI, by command line. Any other command line of theirs fails.
    """

    def __init__(self, folder, deployment, answers):
        self.clone, self._deployment = folder / "clone", deployment
        self._home, self._programs = folder / "home", folder / "programs"
        self._log = folder / "programs.log"
        for path in (self._home, self._programs):
            path.mkdir(parents=True)
        self._log.touch()
        subprocess.run(["git", "clone", "--quiet", ROOT, self.clone], check=True)
        self._link_what_is_installed()
        for program in {line.split()[0] for line in answers}:
            self._write_stand_in(program, answers)

    def run(self, block, status=0, **variables):
        """Run commands in one shell, which ends with the first that fails; return their output.

        Args:
            block: The commands.
            status: Exit status that the shell must have.
            variables: Environment variables besides those of the machine.
        """
        environment = {**self._deployment.command_environment, **variables}
        for name in LEFT_OUT:
            del environment[name]
        # Variables of the make that runs the tests, such as ARGS, are not for these commands.
        environment = {k: v for k, v in environment.items() if not k.startswith(("MAKE", "MFLAGS"))}
        path = f"{self._programs}{os.pathsep}{environment['PATH']}"
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-v", "-c", block],
            cwd=self.clone,
            env={**environment, "HOME": str(self._home), "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10 * SECONDS,
            check=False,
        )
        assert ended.returncode == status, f"{block}\n{ended.stdout}"
        return ended.stdout

    @property
    def asked(self):
        """Command lines of the programs that stand in for others, in their order."""
        return self._log.read_text().splitlines()

    def _link_what_is_installed(self):
        # Older than the installed packages, or `make` would install them again.
        for path in self.clone.rglob("*"):
            os.utime(path, (0, 0), follow_symlinks=False)
        (self.clone / ".tools").mkdir()
        for name in INSTALLED:
            (self.clone / name).symlink_to((ROOT / name).resolve())

    def _write_stand_in(self, program, answers):
        cases = "".join(
            f"  {shlex.quote(line)}) echo {shlex.quote(answer)};;\n"
            for line, answer in answers.items()
            if line.split()[0] == program
        )
        path = self._programs / program
        path.write_text(
            f'#!/bin/sh\necho "{program} $*" >> {shlex.quote(str(self._log))}\n'
            f'case "{program} $*" in\n{cases}'
            f'  *) echo "{program} $*: nobody answers this" >&2; exit 1;;\nesac\n'
        )
        path.chmod(0o755)
