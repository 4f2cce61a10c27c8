"""Planting bugs in the sources, and telling which ones the tests find: the parts of tools/mutate.py."""
