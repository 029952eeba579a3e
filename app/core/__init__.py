"""The decision core: a pure state machine, one instance per VM; no I/O, no clock, no lock."""
