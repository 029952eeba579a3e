"""Tests and measurements on real VMs; opt-in, for they need QEMU, an image and minutes: `make test-vm`."""
