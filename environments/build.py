"""An image, made from exactly what Azure Machine Learning would get."""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from common.errors import UserError
from environments import base
from environments.builders import Builder, Recipe
from jobs.errors import SnapshotError
from jobs.spec.build_context import Image, build_context

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final[Mapping[Image, int]] = {"cpu": 2_200_000_000, "gpu": 5_800_000_000}
"""Bytes that an image may have: each node pulls it before it works, and is paid for meanwhile."""

SBOM: Final = ROOT / ".tools" / "sbom" / "bin" / "python"
"""With what reads an image; `make images` installs it."""

_TOLD_SECONDS: Final = 30.0
_SHOWN: Final = 25
"""Lines of a build that has failed."""


@dataclass(frozen=True)
class Order:
    """What to build."""

    image: Image
    base: str | None = None
    """Image to begin with; none for the Dockerfile's own, or what can be had in its place."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """More of the build's, such as PIP_INDEX_URL."""
    fresh: bool = False
    """Whether every step is run, whatever is there of earlier builds."""
    tag: str = "latest"
    folder: Path = ROOT / "build" / "images"
    """For what is written beside the image."""

    @property
    def name(self) -> str:
        """Of the image."""
        return f"localhost/trainer-{self.image}:{self.tag}"

    @property
    def beside(self) -> Path:
        """Folder of this image."""
        return self.folder / (self.image if self.tag == "latest" else f"{self.image}-{self.tag}")


@dataclass(frozen=True)
class Built:
    """An image that is there."""

    name: str
    version: str
    """Of the environment that Azure Machine Learning would build from the same."""
    base: str
    arguments: Sequence[str]
    """Names of the build's others; what they are set to may be for no one's eyes."""
    builder: str
    bytes: int
    """Of its layers, not compressed."""
    steps: int
    cached_steps: int
    """Taken from an earlier build."""
    seconds: float
    cold_seconds: float | None
    """Of the newest build that took no step from an earlier one, if that is known."""


def build(builder: Builder, order: Order, tell: Callable[[str], None]) -> Built:
    """Build an image; beside it go the build's log, `build.json` with what it cost, and the bill of
    materials with its licences.

    Args:
        builder: what makes images.
        order: what to build.
        tell: shows a person what goes on.

    Raises:
        UserError: it cannot be built, or is larger than it may be.
    """
    try:
        context = build_context(ROOT, order.image)
    except SnapshotError as error:
        raise UserError(str(error)) from error
    dockerfile = context.contents["Dockerfile"].decode()
    begun = order.base or base.ensure(builder, base.declared(dockerfile), tell, fresh=order.fresh)
    tell(f"building {order.name} on {begun} with {builder.program}")
    order.beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        here, id_file = Path(folder, "context"), Path(folder, "id")
        context.write(here)
        arguments = {"BASE_IMAGE": begun, **order.arguments}
        recipe = Recipe(here, arguments, fresh=order.fresh, id_file=id_file)
        seconds, steps, cached = _follow(builder, recipe, order, tell)
        if not id_file.exists():
            raise UserError(f"{order.name}: the build was interrupted; give the command again")
        identifier = id_file.read_text(encoding="utf-8").strip()
    built = Built(
        name=order.name,
        version=context.version,
        base=begun,
        arguments=sorted(order.arguments),
        builder=builder.program,
        bytes=builder.size(order.name),
        steps=steps,
        cached_steps=cached,
        seconds=seconds,
        cold_seconds=seconds if not cached else _cold_seconds(order, context.version),
    )
    text = json.dumps(asdict(built), indent=1)
    record(order).write_text(f"{text}\n", encoding="utf-8")
    limit = BUDGET.get(order.image)
    of_limit = f" of at most {limit / 1e9:.2f}" if limit else ""
    tell(
        f"{order.name}: {built.bytes / 1e9:.2f} GB{of_limit}, in {seconds:.1f} s;"
        f" {cached} of {steps} steps were there already"
    )
    if limit and built.bytes > limit:
        raise UserError(
            f"{order.name} has {built.bytes / 1e9:.2f} GB, more than its {limit / 1e9:.2f}: find"
            " what came in with `du` in it, or raise BUDGET in environments/build.py with a reason"
        )
    described = order.beside / "described"
    known = described.read_text(encoding="utf-8") if described.exists() else ""
    if known != identifier and _describe(builder, order, tell):
        described.write_text(identifier, encoding="utf-8")
    return built


def _describe(builder: Builder, order: Order, tell: Callable[[str], None]) -> bool:
    """Write what is inside, and under which licences; whether there is what it takes."""
    if not SBOM.exists():
        tell("no bill of materials is written: `make .tools/sbom/.ready` installs what it needs")
        return False
    tell("reading what is inside")
    with builder.root(order.name) as root:
        command = [str(SBOM), "-m", "environments.sbom", str(root), "--to", str(order.beside)]
        done = subprocess.run(
            [*command, "--name", order.name.removeprefix("localhost/")],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise UserError(
            f"{order.name}: no bill of materials: {done.stderr.removeprefix('error: ').strip()}"
        )
    return True


def _follow(
    builder: Builder, recipe: Recipe, order: Order, tell: Callable[[str], None]
) -> tuple[float, int, int]:
    """Build, showing each step as it begins; seconds, steps, and those that were there."""
    begun, told, steps, cached = time.monotonic(), time.monotonic(), 0, 0
    log = order.beside / "build.log"
    command = builder.build_command(recipe, order.name)
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            now = time.monotonic()
            cached += builder.cached.match(line) is not None
            step = builder.step.match(line)
            if step:
                # What a stage begins with is looked up, and nothing that is done.
                steps += "FROM " not in step[1]
                tell(f"{now - begun:5.0f} s  {step[1].split('&&')[0].strip()[:100]}")
            elif now - told > _TOLD_SECONDS and line.strip():
                tell(f"{now - begun:5.0f} s    {line.strip()[:100]}")
            else:
                continue
            told = now
    if process.returncode:
        lines = log.read_text(encoding="utf-8").splitlines()[-_SHOWN:]
        end = "\n".join(f"  {line}" for line in lines)
        raise UserError(
            f"{order.name}: the build ended with status {process.returncode}; all it said is in"
            f" {log}, its end:\n{end}"
        )
    return time.monotonic() - begun, steps, cached


def record(order: Order) -> Path:
    """The file that says what an image has cost."""
    return order.beside / "build.json"


def _cold_seconds(order: Order, version: str) -> float | None:
    """Of the newest build of this version whose every step was run."""
    try:
        before = json.loads(record(order).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = before.get("cold_seconds") if before.get("version") == version else None
    return None if found is None else float(found)
