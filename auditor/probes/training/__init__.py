"""A small GPT and its training, as far as the probe `training_step` needs it."""
