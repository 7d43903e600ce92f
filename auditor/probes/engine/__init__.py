"""Runs the probes: processes, deadlines, samples, the record. The parent itself never calls the GPU driver."""
