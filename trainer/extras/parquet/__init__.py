"""Parquet files of images and labels, as Hugging Face publishes them."""
