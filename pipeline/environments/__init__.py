"""Worlds to act in, each with its tasks, its grader and its expert."""
