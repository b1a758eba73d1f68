"""`ml-trainer fit`: from a folder of images to a report."""

from trainer.api import fit
from trainer.fitting.options import FitOptions


def run(options: FitOptions) -> None:
    """Train on a folder, and print what to do next; see `trainer.api.fit`."""
    made = fit(
        options.folder,
        data=options.data,
        name=options.name,
        weights=options.weights,
        mirror=options.mirror,
        group_by=options.group_by,
        max_rejected=options.max_rejected,
        runs_dir=options.runs_dir,
        options=options.trainer,
    )
    print(f"the report: {made.report}")
    if options.weights is None:
        print(
            "most images are classified better from published weights: `ml-trainer weights` lists"
            " files, which --weights takes"
        )
