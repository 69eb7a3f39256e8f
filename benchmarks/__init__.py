"""Benchmarks of the library, each a command that runs at the root: ``python -m benchmarks.coding``."""
