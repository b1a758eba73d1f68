"""The record of a rehearsal, and its HTML page."""
