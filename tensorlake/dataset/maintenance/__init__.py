"""Maintenance: check, garbage collection, optimize and copy."""
