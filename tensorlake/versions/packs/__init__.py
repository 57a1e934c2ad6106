"""Packs: reading, writing and copying the immutable files that hold chunks and pages."""
