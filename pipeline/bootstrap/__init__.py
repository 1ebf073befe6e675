"""Selection: which trajectories become training data, and a ledger of why the others did not."""
