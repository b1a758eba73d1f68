"""Networks of your own: their code, which is part of a run, and their checks."""
