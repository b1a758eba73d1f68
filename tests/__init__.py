"""Tests, in rooms that mirror the code's."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""Folder of the repository."""
