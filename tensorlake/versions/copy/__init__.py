"""Copies: a dataset's packs, entries and tags, in an order that is safe to interrupt."""
