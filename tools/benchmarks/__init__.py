"""Scripts behind the numbers in the documents; each prints a table and can write raw JSON."""
