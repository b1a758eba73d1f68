"""Tests of tables of images."""
