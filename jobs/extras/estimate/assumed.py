"""Images/s of one GPU of which nothing was measured with TensorFlow. Pure."""

from math import sqrt
from statistics import median
from typing import Final

from jobs.extras.estimate.fit import HALF, Fit, Value, relative_time
from jobs.extras.estimate.grounds import Ground, sources
from jobs.extras.estimate.published import Measurement, generation, link_of
from jobs.throughput import Span

SPECIFICATIONS: Final = {
    "V100": (900, 125.0, 15.7),
    "A100": (1_555, 312.0, 156.0),
    "T4": (320, 65.0, 8.1),
    "A10": (600, 125.0, 62.5),
    "H100": (3_350, 989.0, 494.5),
    "H100 NVL": (3_900, 835.0, 417.5),
    "H200": (4_800, 989.0, 494.5),
}
"""Memory bandwidth in GB/s, and TFLOP/s in half and in full precision (TF32 where the GPU has it,
without sparsity), as NVIDIA's data sheets give them."""
_REFERENCES: Final = ("V100", "A100")
"""GPUs of which several kinds of software were measured."""


def assumed(fit: Fit, gpu: str, precision: str, software: str) -> tuple[Span, list[Ground]] | str:
    """Return images/s of one GPU with ResNet-50 of which nothing was measured with this software.

    Rows of the GPU with other software are multiplied by the ratio of that software on V100 and
    A100; memory bandwidth and FLOP/s, in those of V100 and A100, bound it from both sides.
    """
    if precision == "bf16":
        same = fit.single(gpu, "amp", software)
        if same is not None:
            text = "as in float16, whose units have the same FLOP/s"
            ground = Ground("one GPU", f"{same.amount:,.0f} images/s", text, sources(same.rows))
            return Span(*[same.amount] * 3), [ground]
    if gpu not in SPECIFICATIONS:
        return f"no measurement of one {gpu} with TensorFlow in {precision}"
    sheet, column = SPECIFICATIONS[gpu], 1 if precision in HALF else 2
    bounds: list[float] = []
    for reference in _REFERENCES:
        other = SPECIFICATIONS[reference]
        there = "amp" if precision in HALF else "tf32" if reference == "A100" else "fp32"
        value = fit.single(reference, there, software)
        if value is not None and (precision in HALF or generation(gpu) != "Turing" or
                                  reference == "V100"):  # fmt: skip
            bounds += [value.amount * sheet[at] / other[at] for at in (0, column)]
    if not bounds:
        return f"no measurement to assume anything of one {gpu} in {precision} from"
    low, high = min(bounds), max(bounds)
    grounds = [
        Ground(
            "one GPU",
            f"{low:,.0f} to {high:,.0f} images/s with ResNet-50",
            f"{' and '.join(_REFERENCES)} x memory bandwidth and x TFLOP/s in theirs:"
            f" {sheet[0]:,} GB/s, {sheet[column]:g}",
            "assumed: no measurement; data sheets of NVIDIA, as of 2026",
        )
    ]
    middle = sqrt(low * high)
    found = _by_other_software(fit, gpu, "amp" if precision == "bf16" else precision, software)
    if found is not None:
        value, ratios = found
        near = [min(max(value.amount * ratio, low), high) for ratio in ratios]
        low, middle, high = min(near), sqrt(min(near) * max(near)), max(near)
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        grounds.append(
            Ground(
                "one GPU",
                f"{middle:,.0f} images/s with ResNet-50",
                f"{value.amount:,.0f} of {value.of} x {shown}, the ratio of {software} on"
                f" {' and '.join(_REFERENCES)}, within the bounds above",
                f"assumed; {sources(value.rows)}",
            )
        )
    return Span(low, middle, high), grounds


def _by_other_software(
    fit: Fit, gpu: str, precision: str, software: str
) -> tuple[Value, list[float]] | None:
    """Return images/s of a GPU in a whole node with other software, and the ratios to this one."""

    def each(kind: str, name: str) -> list[tuple[Measurement, float]]:
        wanted = 1, "ResNet-50", kind, precision, name
        return [
            (row, row.images_per_s / row.gpus)
            for row in fit.rows
            if row.images_per_s
            and (row.nodes, row.model, row.gpu_type, row.precision, row.software) == wanted
            and row.gpus == 8
        ]

    for name in sorted({row.software for row in fit.rows if row.gpu_type == gpu}):
        rows = each(gpu, name)
        ratios = [
            median(one for _, one in mine) / median(one for _, one in its)
            for kind in _REFERENCES
            if (mine := each(kind, software)) and (its := each(kind, name))
        ]
        if rows and ratios:
            # One GPU for itself is faster than one of a node.
            loss = relative_time(fit.inside(link_of(gpu), precision).amount, 0, 8, 1)
            amount = median(one for _, one in rows) * loss
            return Value(amount, tuple(row for row, _ in rows), f"{name} on a node"), ratios
    return None
