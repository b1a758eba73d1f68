"""From options to a job as plain data, and to what the SDK takes."""
