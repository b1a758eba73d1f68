"""Tables of images: CSV files with a row for each image, of any separator and encoding."""
