"""A stand-in for the Pulumi CLI."""

import json
import stat
import sys

import pytest

STAND_IN = """\
#!{python}
import json, os, pathlib, sys

here = pathlib.Path({folder!r})
with (here / "asked").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + chr(10))
command = " ".join(sys.argv[1:3]) if sys.argv[1] == "stack" else sys.argv[1]
answer = json.loads((here / "answers.json").read_text()).get(command, {{}})
if isinstance(answer, list):
    asked = (here / "asked").read_text().splitlines()
    before = sum(line.startswith(command) for line in asked) - 1
    answer = answer[min(before, len(answer) - 1)]
if "events" in answer:
    lines = [json.dumps(one) + chr(10) for one in answer["events"]]
    pathlib.Path(os.environ["PULUMI_OPTION_EVENT_LOG"]).write_text("".join(lines))
print(answer.get("out", ""))
print(answer.get("err", ""), file=sys.stderr)
sys.exit(answer.get("status", 0))
"""


@pytest.fixture
def pulumi(tmp_path, monkeypatch):
    """Install a `pulumi` with given answers, each one or a list for one call after another; return
    the log of its commands.
    """
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("JOBS_OUTPUTS", raising=False)

    def answers(**commands):
        named = {name.replace("_", " "): answer for name, answer in commands.items()}
        (tmp_path / "answers.json").write_text(json.dumps(named))
        return lambda: (tmp_path / "asked").read_text().splitlines()

    return answers
