"""Arrays: NumPy, torch and Hugging Face datasets, IDX files."""
