"""Logs: the numbered entries of a branch, and publication of the next one."""
