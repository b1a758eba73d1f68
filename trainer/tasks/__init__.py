"""Tasks: what records hold, the loss, the metrics, and what a report and an export show."""
