"""What check.py checks: one module per group of vectors, each with functions named `check_*`."""
