"""Replacement for NVIDIA's image with the CUDA compiler, built from Debian's packages."""
