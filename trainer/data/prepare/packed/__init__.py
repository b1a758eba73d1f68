"""Images inside other files: WebDataset's tar archives, and rows of Parquet files."""
