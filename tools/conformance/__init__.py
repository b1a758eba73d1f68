"""Programs that others wrote judge this repository: `python -m tools.conformance`."""
