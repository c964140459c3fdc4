"""Benchmarks: figures and ratios, printed. Absolute times hold only side by side in one run."""
