"""The page of a rehearsal: from its record to one HTML file."""
