"""Rendering: model input from a trajectory so far, and a step from what the model wrote."""
