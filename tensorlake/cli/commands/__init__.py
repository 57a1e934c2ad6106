"""Commands, one module each, named as the command."""
