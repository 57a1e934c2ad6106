"""Copies: a dataset's packs, entries and tags, in an order that a stop cannot break."""
