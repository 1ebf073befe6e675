"""Wikis that an agent can search: what every wiki environment shares."""
