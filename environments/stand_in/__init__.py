"""In place of NVIDIA's image with CUDA's compiler: one of Debian's packages."""
