"""Playing episodes: one, and many at once."""
