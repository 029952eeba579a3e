"""In-memory stand-ins for ports; each passes its port's contract suite."""
