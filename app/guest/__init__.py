"""The daemon inside a VM: metrics, vm-monitor, informant. Carries no control-plane code."""
