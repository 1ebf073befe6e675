"""Export: selected trajectories as a dataset that any trainer can read."""
