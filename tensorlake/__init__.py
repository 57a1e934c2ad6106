"""tensorlake: a tensor lake for deep learning."""
