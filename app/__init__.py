"""vmscaler: scales running VMs live, CPU and memory, up and down, with no restart."""

__version__ = "0.1.0"
