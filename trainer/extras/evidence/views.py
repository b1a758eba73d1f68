"""A view of the statements of a run, for other tools: a model card with the metadata of Hugging
Face (https://huggingface.co/docs/hub/model-cards). It only repeats statements.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from common.files import write_atomically
from common.text import plural
from trainer.errors import CheckpointError
from trainer.extras.evidence.options import DescribeModelOptions
from trainer.extras.evidence.statements import FOLDER, Statement, read_statements
from trainer.leaves import metrics_in

CARD: Final = "README.md"
_TASKS: Final = {"classification": "image-classification"}
"""Names of tasks on the Hub, where they differ from ours by more than the prefix image-."""


def describe_model(options: DescribeModelOptions) -> None:
    """Write the model card, and print its path.

    Raises:
        CheckpointError: The run has no statement about a start, or one is not complete.
    """
    run = Path(options.run).resolve()
    statements = list(read_statements(run / FOLDER))
    if not any(statement.kind == "start" for statement in statements):
        raise CheckpointError(
            f"{options.run}: has no statements in {FOLDER}/; a run writes them with"
            " --evidence.chain True"
        )
    folder = Path(options.output) if options.output else run / FOLDER / "views"
    try:
        card = model_card(run.name, statements)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{options.run}: a statement in {FOLDER}/ does not say what a card needs"
            f" ({type(error).__name__}: {error}); check them with verify-model"
        ) from error
    write_atomically(folder / CARD, card)
    print(folder / CARD)


def model_card(name: str, statements: Sequence[Statement]) -> str:
    """Return a model card: metadata in YAML, whose values are JSON, which YAML contains; and text.

    Args:
        name: Name of the run.
        statements: Its statements, at least one of them about a start.
    """
    start, head = _newest(statements, "start"), statements[-1]
    assert start is not None
    stated, measured = start.predicate, _metrics(statements)
    task = _task(start)
    metadata: dict[str, Any] = {
        "library_name": "tf-keras",
        "pipeline_tag": task,
        "tags": ["horovod", "in-toto"],
    }
    if measured:
        results = {
            "task": {"type": task},
            "dataset": {"name": _data_name(start), "type": _data_name(start)},
            "metrics": [{"type": key, "value": value} for key, value in measured.items()],
        }
        metadata["model-index"] = [{"name": name, "results": [results]}]
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in metadata.items())
    steps = max((statement.predicate["step"] for statement in statements), default=0)
    environment = stated["environment"]
    signed = f"signed by key {head.signatures[0][0][:16]}" if head.signatures else "unsigned"
    lines = [
        f"---\n{front}\n---",
        f"# {name}",
        f"Made by {plural(len(_all(statements, 'start')), 'attempt')} of one run, in {steps:,}"
        f" steps of {stated['configuration']['global_batch']:,} images.",
        "| what | which |\n|---|---|\n"
        + "\n".join(
            f"| {what} | {which} |"
            for what, which in (
                ("data set", f"{_data_name(start)}, version `{stated['data']['version']}`"),
                ("manifest", f"sha256 `{stated['data']['sha256']}`"),
                ("code", f"sha256 `{stated['code']['sha256']}`"),
                ("packages", f"sha256 `{stated['packages']['sha256']}`"),
                ("machine", f"{environment['processor']}, {environment['system']}"),
                *((key, value) for key, value in measured.items()),
                ("statements", f"{len(statements)}, {signed}, sha256 `{head.digest}`"),
            )
        ),
        "Check it with `ml-trainer verify-model RUN`.",
    ]
    return "\n\n".join(lines) + "\n"


def _data_name(start: Statement) -> str:
    data = start.predicate["configuration"]["config"]["data"]
    return Path(data["dir"]).name if data["dir"] else str(data["source"])


def _task(start: Statement) -> str:
    task = str(start.predicate["configuration"]["config"]["task"])
    return _TASKS.get(task, f"image-{task}")


def _metrics(statements: Sequence[Statement]) -> dict[str, float]:
    newest = _newest(statements, "result")
    if newest is None:
        return {}
    result = newest.predicate["result"]
    keys = (metric.key for metric in metrics_in(result))
    return {key: result[key] for key in keys if result.get(key) is not None}


def _all(statements: Sequence[Statement], kind: str) -> list[Statement]:
    return [statement for statement in statements if statement.kind == kind]


def _newest(statements: Sequence[Statement], kind: str) -> Statement | None:
    return next(iter(_all(statements, kind)[::-1]), None)
