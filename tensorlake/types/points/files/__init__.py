"""Files of point clouds: LAS and LAZ, PLY, PCD, and NumPy's."""
