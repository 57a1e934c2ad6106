"""Verification: check a dataset object by object, and repair what can be repaired."""
