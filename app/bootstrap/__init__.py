"""Builds the application from settings; the only place that knows services and adapters.

Nothing connects before the first call. One module per process that is built, so that each loads only what it
needs.
"""
