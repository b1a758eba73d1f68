"""Formats of hospitals and laboratories: DICOM, and TIFFs of several pages."""
