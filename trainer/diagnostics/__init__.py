"""The environment of a run: machine, devices and network."""
