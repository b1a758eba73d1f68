"""Pulumi: its command line, what a stack exports, and how it is torn down."""
