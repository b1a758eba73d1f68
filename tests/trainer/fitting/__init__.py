"""Tests of `trainer.fitting`."""
