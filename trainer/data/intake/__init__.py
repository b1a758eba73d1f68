"""The parts of image files that a data set takes over: pixels, but no metadata, unless asked
for.
"""
