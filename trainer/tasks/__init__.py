"""Tasks: targets of records, the loss, the metrics, and the parts of reports and exports."""
