"""What several measuring probes share: timed back-to-back calls, spread, matrix products, the kernels' sources."""
