"""The bench: each probe against a long careful reference on the same GPU in the same run."""
