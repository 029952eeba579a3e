"""`make bench`: CPU per operation and per VM and poll, by the process' CPU clock, never by the wall clock."""
