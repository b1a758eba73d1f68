"""`python -m jobs spec`: the job as a file for `az ml job create`, without submitting it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from common.annotations import Bounds
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.errors import SpecError
from jobs.spec import from_options
from jobs.spec.code_snapshot import CodeSnapshot
from jobs.spec.from_options import RunOptions
from jobs.spec.sweep import read_sweep


@dataclass(frozen=True)
class SpecOptions(RunOptions):
    """Print a job as YAML for `az ml job create --file`, from the options of submit. The code that
    the YAML refers to is written to build/.
    """

    sweep: tuple[str, ...] = ()
    """Print a sweep instead, whose trials are all combinations of values of options of the trainer:
    optimizer.learning-rate=0.1,0.2,0.4 optimizer.momentum=0.9,0.95. Azure Machine Learning runs the
    trials, and compares them on held-out images, by the task's first metric, such as top-1."""

    sweep_concurrent: Annotated[int, Bounds(at_least=1)] = 1
    """Maximum number of trials of a sweep at the same time; each needs --nodes nodes."""


def run(
    options: SpecOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Print the job without sending requests to Azure."""
    options = from_options.with_own_key(options, Path.home())
    config = from_options.read_config(options, program)
    software, attempt = from_options.read_software(config), from_options.first_attempt(options)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
    # Imported here because importing the SDK takes seconds.
    from jobs.spec.sdk_job import sweep_to_yaml, to_yaml  # noqa: PLC0415

    code, console = written_code(from_options.REPOSITORY, software.code), Console(as_json=as_json)
    if not options.sweep:
        text = to_yaml(spec, code)
        console.answer({"job": spec.name, "yaml": text}, text.rstrip())
        return 0
    if config is None:
        raise SpecError(["--sweep: varies a training, but a check has no options to vary"])
    sweep = read_sweep(options.sweep, config)
    text = sweep_to_yaml(spec, code, sweep, options.sweep_concurrent)
    console.note(f"{plural(sweep.trials, 'trial')}, at most {options.sweep_concurrent} at a time")
    console.answer({"job": spec.run, "trials": sweep.trials, "yaml": text}, text.rstrip())
    return 0


def written_code(repository: Path, code: CodeSnapshot) -> Path:
    """Write the snapshot to a folder named by its digest, unless it exists; return the folder.

    The folder is complete or absent, also if two commands write it, or one is killed meanwhile.
    """
    folder = repository / "build" / "code" / code.digest
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder.parent) as scratch:
            written = Path(scratch) / "code"
            code.write(written)
            try:
                written.rename(folder)
            except OSError:
                # Another command was faster.
                if not folder.is_dir():
                    raise
    return folder
