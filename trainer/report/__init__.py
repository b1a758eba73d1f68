"""HTML reports of runs and data sets, each a single self-contained page."""
