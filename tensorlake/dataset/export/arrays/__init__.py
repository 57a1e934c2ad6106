"""Tensors as arrays of other formats: HDF5, NumPy, Zarr."""
