"""Meshes: files of triangles, stored as they came."""
