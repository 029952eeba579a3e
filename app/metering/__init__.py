"""What VMs are billed for: exact arithmetic in integers, without clocks and without I/O."""
