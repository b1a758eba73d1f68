"""What profiles and timelines of a run say."""
