"""Configuration: a loader's arguments, checked once, and the schema of its batches."""
