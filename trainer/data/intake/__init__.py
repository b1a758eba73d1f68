"""What a data set takes over of its images' files: pixels, but no metadata, unless asked for."""
