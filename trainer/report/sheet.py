"""The contact sheet: some images of each class."""

from common.page.markup import text
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.report.counts import split_title
from trainer.report.markup import embedded
from trainer.report.samples import Sample, Samples

FEW_CLASSES = 100
"""Classes up to which all get the samples that were asked for; more are offered a filter."""
THUMBNAILS = 800
"""Most thumbnails of more classes, unless one of each is already more."""
_ACROSS = 8
"""Most thumbnails side by side."""


def samples_per_class(classes: int, wanted: int) -> int:
    """How many samples of each class keep a page small enough."""
    if classes <= FEW_CLASSES:
        return wanted
    return min(wanted, max(1, THUMBNAILS // classes))


def contact_sheet(manifest: Manifest, samples: Samples, per_class: int, wanted: int) -> str:
    """Samples of each class with its name and its counts.

    Args:
        manifest: of the data set.
        samples: what was found.
        per_class: that were looked for of each class.
        wanted: that were asked for.
    """
    classes = len(manifest.classes)
    fewer = f" Not {wanted}, as there are {classes:,} classes." if per_class < wanted else ""
    hint = (
        f'<p class="hint">Up to {plural(per_class, "training image")} of each class, found among'
        f" {samples.looked_at:,} from places all over the shards.{fewer} Point at one for its file,"
        " its size and its place.</p>\n"
    )
    search = (
        '<p class="filter" hidden><label for="filter">Show classes whose name contains</label>\n'
        '<input id="filter" type="search" autocomplete="off" spellcheck="false">\n'
        '<output id="filtered" for="filter"></output></p>\n'
    )
    cards = "".join(_card(manifest, samples, label) for label in range(classes))
    return (
        f"{hint}{search if classes > FEW_CLASSES else ''}"
        f'<div class="sheet" style="--across: {min(per_class, _ACROSS)}">\n{cards}</div>\n'
    )


def _card(manifest: Manifest, samples: Samples, label: int) -> str:
    name, found = manifest.classes[label], samples.of_class[label]
    counts = {title: split.class_counts[label] for title, split in manifest.splits.items()}
    shown = ", ".join(f"{count:,} {text(split_title(title))}" for title, count in counts.items())
    if found:
        images = "".join(f"<li>{_image(sample, name)}</li>\n" for sample in found)
        content = f"<ul>\n{images}</ul>"
    elif counts["train"]:
        content = f'<p class="hint">no sample among the {samples.looked_at:,} images looked at</p>'
    else:
        content = '<p class="hint">no training images</p>'
    return (
        f'<article class="class"><div><h3>{text(name)}</h3><p class="hint">{shown}</p></div>\n'
        f"{content}</article>\n"
    )


def _image(sample: Sample, name: str) -> str:
    width, height = sample.size
    place = f"{sample.shard}, record {sample.record:,}"
    if sample.thumbnail is None:
        return (
            f'<div class="absent" title="{text(place)}">{text(sample.name)} cannot be decoded</div>'
        )
    title = f"{sample.name}\n{width:,} x {height:,} pixels\n{place}"
    return (
        f'<img src="{embedded(sample.thumbnail, "image/jpeg")}" loading="lazy"'
        f' alt="{text(f"{name}: {sample.name}")}" title="{text(title)}">'
    )
