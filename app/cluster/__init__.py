"""Who owns which VM: consistent hashing and lease arithmetic, pure."""
