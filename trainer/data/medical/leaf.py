"""The leaf of the formats of hospitals and laboratories. Standard library only."""

from typing import Final

from trainer.leaf import Leaf

LEAF: Final = Leaf(
    paged_formats=("trainer.data.medical.dicom:Dicom", "trainer.data.medical.tiff_pages:TiffPages"),
)
