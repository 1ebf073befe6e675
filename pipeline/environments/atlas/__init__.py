"""The embedded environment: an encyclopedia of countries, cities and chemical elements."""
