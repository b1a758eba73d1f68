"""`python -m jobs spec`: the job as a file for `az ml job create`, without submitting it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.spec import from_options
from jobs.spec.code_snapshot import CodeSnapshot
from jobs.spec.from_options import RunOptions


@dataclass(frozen=True)
class SpecOptions(RunOptions):
    """Print a job as YAML for `az ml job create --file`, from the options of submit. The code that
    the YAML refers to is written to build/.
    """


def run(
    options: SpecOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Print the job without sending requests to Azure."""
    software, attempt = from_options.read_software(), from_options.first_attempt(options)
    config = from_options.read_config(options, program)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
    # Imported here because importing the SDK takes seconds.
    from jobs.spec.sdk_job import to_yaml  # noqa: PLC0415

    text = to_yaml(spec, written_code(from_options.REPOSITORY, software.code))
    Console(as_json=as_json).answer({"job": spec.name, "yaml": text}, text.rstrip())
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
