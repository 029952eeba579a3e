"""The chaos test: a whole fleet under faults from a seed, and a checker that judges it by its journals."""
