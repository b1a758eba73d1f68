"""`python -m jobs spec`: the job as a file for `az ml job create`, without submitting it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.spec import from_options
from jobs.spec.code_snapshot import CodeSnapshot
from jobs.spec.from_options import RunOptions
from jobs.spec.job_spec import JobSpec
from trainer.config import TrainConfig


@dataclass(frozen=True)
class SpecOptions(RunOptions):
    """Print a job as YAML for `az ml job create --file`, from the options of submit. The code that
    the YAML refers to is written to build/.
    """


def run(
    options: SpecOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Print the job without sending requests to Azure."""
    spec, code, _ = described(options, outputs, program)
    # Imported here because importing the SDK takes seconds.
    from jobs.spec.sdk_job import to_yaml  # noqa: PLC0415

    text = to_yaml(spec, code)
    Console(as_json=as_json).answer({"job": spec.name, "yaml": text}, text.rstrip())
    return 0


def described(
    options: RunOptions, outputs: PlatformOutputs, program: tuple[str, ...]
) -> tuple[JobSpec, Path, TrainConfig | None]:
    """Build a job from the options of submit, and write its code.

    Returns:
        The job, the folder of its code, and its configuration if it trains.
    """
    options = from_options.with_own_key(options, Path.home())
    config = from_options.read_config(options, program)
    software, attempt = from_options.read_software(config), from_options.first_attempt(options)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
    return spec, written_code(from_options.REPOSITORY, software.code), config


def written_code(repository: Path, code: CodeSnapshot) -> Path:
    """Write the snapshot to a folder named by its digest, unless it exists; return the folder.

    The folder is complete or absent, even if two commands write it, or one is killed meanwhile.
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
