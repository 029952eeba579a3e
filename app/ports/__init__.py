"""Interfaces between services and adapters, and the facts that cross them."""
