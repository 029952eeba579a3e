"""Pure models of a VM under load, for the simulated fleet and for what-if runs."""
