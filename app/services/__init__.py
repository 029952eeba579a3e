"""Orchestration: what happens when, in terms of ports."""
