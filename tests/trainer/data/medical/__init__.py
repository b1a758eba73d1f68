"""Tests of formats of hospitals and laboratories."""
