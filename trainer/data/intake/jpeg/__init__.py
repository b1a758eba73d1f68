"""JPEGs: their segments, tables and entropy-coded scans (ITU-T T.81)."""
