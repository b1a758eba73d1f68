"""Own images: six hard sets, and runs of `ml-trainer fit` on them compared with other ways."""
