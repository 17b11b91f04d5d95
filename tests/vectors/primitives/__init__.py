"""What Debian has no package for, in plain Python from the standards, and thin faces of what it has.

None of it runs in constant time: it opens test vectors and must never hold a real key.
"""
