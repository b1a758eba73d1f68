"""The ranks of a run: started, connected, watched and ended together."""
