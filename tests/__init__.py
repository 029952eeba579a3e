"""vmscaler's tests."""
