"""The code of docs/your-own-model.md trains, exactly as it is written there."""

import re

import pytest

from tests import ROOT
from tests.trainer.support.command import TINY, result
from tests.trainer.support.forked import fork_trainer

DOCUMENT = (ROOT / "docs" / "your-own-model.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_model_has_no_more_than_twenty_lines():
    (code,) = CODE
    assert len(code.splitlines()) <= 20


@pytest.mark.slow
def test_the_model_of_the_document_trains_on_the_digits(workplace):
    (file,) = re.findall(r"here `(mymodels/\w+\.py)`", DOCUMENT)
    command = re.search(r"^    ml-trainer (train .*--model\.builder.*)$", DOCUMENT, re.MULTILINE)
    assert command is not None
    module = workplace / file
    module.parent.mkdir()
    module.write_text(CODE[0])
    short = [*TINY, "--max-steps", "20", "--name", "run", "--model.image-size", "16"]
    exported = ["--export", "True"]
    found = [{"PYTHONPATH": str(workplace)}] * 2
    done = fork_trainer(*command[1].split(), *short, *exported, cwd=workplace, env=found)
    assert done.returncode == 0, done.stderr
    assert "starts: mymodels.small:build, 16 px" in done.stdout
    run = workplace / "runs" / "run"
    assert result(run)["steps"] == 20
    assert (run / "export" / "export.json").is_file()
