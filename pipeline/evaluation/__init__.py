"""Evaluation: scores, intervals, paired comparisons, and the report that shows them."""
