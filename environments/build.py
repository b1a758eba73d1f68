"""Build an image from exactly the files that Azure Machine Learning would get."""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from common.errors import UserError
from common.files import write_atomically
from environments import base, inventory
from environments.builders import Builder, Recipe
from jobs.errors import SnapshotError
from jobs.spec.build_context import Image, build_context

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final[Mapping[Image, int]] = {"cpu": 2_200_000_000, "gpu": 5_800_000_000}
"""Maximum bytes of an image: each node pulls it before it starts, and costs money meanwhile."""

SYFT: Final = ROOT / ".tools" / "sbom" / "bin" / "syft"
"""The program that reads an image; `make -C tools images` installs it."""

_PROGRESS_SECONDS: Final = 30.0
_SHOWN_LINES: Final = 25
"""Number of last lines to show of a failed build."""


@dataclass(frozen=True)
class Order:
    """An image to build."""

    image: Image
    base: str | None = None
    """Base image; None is that of the Dockerfile, or a replacement if it cannot be pulled."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Additional build arguments, such as PIP_INDEX_URL."""
    fresh: bool = False
    """Whether to run every step instead of using cached ones."""
    tag: str = "latest"
    folder: Path = ROOT / "build" / "images"
    """Folder for the files that are written along with images."""

    @property
    def name(self) -> str:
        """Name of the image."""
        return f"localhost/trainer-{self.image}:{self.tag}"

    @property
    def beside(self) -> Path:
        """Folder for the files of this image."""
        return self.folder / (self.image if self.tag == "latest" else f"{self.image}-{self.tag}")


@dataclass(frozen=True)
class Built:
    """An image that was built."""

    name: str
    version: str
    """Version of the environment that Azure Machine Learning would build from the same files."""
    base: str
    arguments: Sequence[str]
    """Names of the additional build arguments; their values may be secret."""
    builder: str
    bytes: int
    """Uncompressed size of its layers."""
    steps: int
    cached_steps: int
    """Number of steps that were cached."""
    seconds: float
    cold_seconds: float | None
    """Duration of the newest build without cached steps, or None if unknown."""


def build(builder: Builder, order: Order, tell: Callable[[str], None]) -> Built:
    """Build an image; also write the build's log, `build.json` with its size and duration, and the
    bill of materials with its licences.

    Args:
        builder: Builds images.
        order: Image to build.
        tell: Prints progress.

    Raises:
        UserError: The build failed, or the image is too large.
    """
    try:
        context = build_context(ROOT, order.image)
    except SnapshotError as error:
        raise UserError(str(error)) from error
    dockerfile = context.contents["Dockerfile"].decode()
    base_image = order.base or base.ensure(
        builder, base.declared(dockerfile), tell, fresh=order.fresh
    )
    tell(f"building {order.name} on {base_image} with {builder.program}")
    order.beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        context_folder, id_file = Path(folder, "context"), Path(folder, "id")
        context.write(context_folder)
        arguments = {"BASE_IMAGE": base_image, **order.arguments}
        recipe = Recipe(context_folder, arguments, fresh=order.fresh, id_file=id_file)
        seconds, steps, cached = _follow(builder, recipe, order, tell)
        if not id_file.exists():
            raise UserError(f"{order.name}: the build was interrupted; run the command again")
        identifier = id_file.read_text(encoding="utf-8").strip()
    built = Built(
        name=order.name,
        version=context.version,
        base=base_image,
        arguments=sorted(order.arguments),
        builder=builder.program,
        bytes=builder.size(order.name),
        steps=steps,
        cached_steps=cached,
        seconds=seconds,
        cold_seconds=seconds if not cached else _cold_seconds(order, context.version),
    )
    text = json.dumps(asdict(built), indent=1)
    write_atomically(record(order), f"{text}\n")
    limit = BUDGET.get(order.image)
    of_limit = f" of at most {limit / 1e9:.2f}" if limit else ""
    tell(
        f"{order.name}: {built.bytes / 1e9:.2f} GB{of_limit}, in {seconds:.1f} s;"
        f" {cached} of {steps} steps were cached"
    )
    if limit and built.bytes > limit:
        raise UserError(
            f"{order.name}: has {built.bytes / 1e9:.2f} GB, more than its limit of"
            f" {limit / 1e9:.2f} GB; find the additions by running `du` in it, or raise BUDGET in"
            " environments/build.py with a reason"
        )
    described = order.beside / "described"
    known = described.read_text(encoding="utf-8") if described.exists() else ""
    if known != identifier and _describe(builder, order, tell):
        described.write_text(identifier, encoding="utf-8")
    return built


def _describe(builder: Builder, order: Order, tell: Callable[[str], None]) -> bool:
    """Write the bill of materials; return whether its program is installed."""
    if not SYFT.exists():
        tell("no bill of materials: its program is missing; run `make .tools/sbom/.ready`")
        return False
    tell("writing the bill of materials")
    with builder.root(order.name) as root:
        inventory.write(SYFT, root, order.beside, order.name.removeprefix("localhost/"))
    return True


def _follow(
    builder: Builder, recipe: Recipe, order: Order, tell: Callable[[str], None]
) -> tuple[float, int, int]:
    """Build and print each step; return the seconds, the steps, and the cached steps."""
    started, shown, steps, cached = time.monotonic(), time.monotonic(), 0, 0
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
                # FROM only names the base of a stage; it is not counted as a step.
                steps += "FROM " not in step[1]
                tell(f"{now - started:5.0f} s  {step[1].split('&&')[0].strip()[:100]}")
            elif now - shown > _PROGRESS_SECONDS and line.strip():
                tell(f"{now - started:5.0f} s    {line.strip()[:100]}")
            else:
                continue
            shown = now
    if process.returncode:
        lines = log.read_text(encoding="utf-8").splitlines()[-_SHOWN_LINES:]
        end = "\n".join(f"  {line}" for line in lines)
        raise UserError(
            f"{order.name}: the build failed with exit status {process.returncode}; its full output"
            f" is in {log}, the last lines are:\n{end}"
        )
    return time.monotonic() - started, steps, cached


def record(order: Order) -> Path:
    """Return the path of the file with the size and build time of an image."""
    return order.beside / "build.json"


def _cold_seconds(order: Order, version: str) -> float | None:
    """Read the duration of the newest build of this version without cached steps, or None."""
    try:
        earlier = json.loads(record(order).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    seconds = earlier.get("cold_seconds") if earlier.get("version") == version else None
    return None if seconds is None else float(seconds)
