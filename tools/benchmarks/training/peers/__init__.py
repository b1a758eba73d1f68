"""ResNet50 as others train it, for `benchmarks gpu`: each program prints a line of JSON.

They compute the same network (v1.5), batch and update on images that stay on the GPU, each in the
way that its project recommends for speed, and run with the packages that are installed.
"""
