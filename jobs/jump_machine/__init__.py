"""The jump machine of a private stack, as jobs see it: it costs money."""
