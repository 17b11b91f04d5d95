"""docs/protocol.md as code that opens and verifies: one module per section, named after it.

Written from that document. Where the two disagree, one of them has a mistake.
"""
