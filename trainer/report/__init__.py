"""The run report: from a run's folder to one page that needs nothing else."""
