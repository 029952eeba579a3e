"""The simulated fleet: VMs that speak the real wire protocols on loopback."""
