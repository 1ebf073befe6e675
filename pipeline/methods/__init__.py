"""Methods: how an episode is driven (standard, cot, act, react)."""
