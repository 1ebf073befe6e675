"""Trajectories, where they are stored, and the panels of tasks they come from."""
