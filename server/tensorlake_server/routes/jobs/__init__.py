"""Routes of samples: their files and images, and what players need beside them."""
