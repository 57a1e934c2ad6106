"""Rankings of rows: by nearness of vectors, and by how well texts match words."""
