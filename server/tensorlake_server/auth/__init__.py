"""Authentication: tokens, scopes and principals."""
