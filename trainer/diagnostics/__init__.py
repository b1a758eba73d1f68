"""What a run is on: machine, devices, network; and where a step's time goes."""
