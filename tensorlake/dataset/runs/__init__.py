"""Records of runs: what training read and logged, and when."""
