"""Build a job from options: as plain data (`JobSpec`), and as YAML of the SDK."""
