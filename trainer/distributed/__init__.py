"""The ranks of a training: started, connected, watched and ended together."""
