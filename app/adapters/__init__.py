"""One module per outside thing; the only place that imports client libraries."""
