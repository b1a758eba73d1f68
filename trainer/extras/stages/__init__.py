"""Stages: a network whose layers are divided over the devices of a rank."""
