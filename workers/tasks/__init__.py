"""Task bodies: guard, then one service call."""
