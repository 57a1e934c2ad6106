"""Fetching: which bytes of which chunks are requested for the wanted rows."""
