"""The record of a rehearsal, and the page that is drawn from it."""
