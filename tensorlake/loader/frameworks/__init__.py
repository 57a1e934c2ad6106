"""Frameworks: loaders for PyTorch, JAX and NumPy, and batches decoded by a server."""
