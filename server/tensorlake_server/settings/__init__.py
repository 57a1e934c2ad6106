"""Settings: flags, environment and configuration file, checked once."""
