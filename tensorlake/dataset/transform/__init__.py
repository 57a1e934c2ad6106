"""Transforms: map, materialize, concat, split, and loaders of rows."""
