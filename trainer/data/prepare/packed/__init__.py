"""Images inside other files than archives of archives: WebDataset's tars, and rows of Parquet."""
