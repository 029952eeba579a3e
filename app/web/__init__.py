"""HTTP endpoints over services."""
