#!/usr/bin/python3
"""Opens every vector of Tidings as a second client would, and tries forgeries of each.

    tests/vectors/check.py        says what failed, and how many checks there were
    tests/vectors/check.py -v     names every check

It is written from docs/protocol.md and shares no code with the programs: `primitives` holds the
cryptography (from Debian's python3-cryptography, and in plain Python what that does not have),
`protocol` the document, section by section, `checks` what is checked. The files that it opens are
those that the programs' own tests open: shared/crypto/tests/vectors and the ones beside this file.
Exit code 0 when everything held and every forgery was refused, else 1.
"""

import argparse
import sys
import time
import traceback

# The tree stays as it is.
sys.dont_write_bytecode = True

from checks import account, calls, document, keys, pairing, rows, sealed, standards, stated
from checks.report import Report

GROUPS = (document, standards, keys, account, sealed, stated, pairing, rows, calls)
# These are shared steps of other checks, with arguments of their own.
STEPS = ("check_confirmations", "check_offer", "check_answer", "check_whole")


def checks_of(group):
    """The checks of a module, in the order in which they stand there."""
    return [
        check for name, check in vars(group).items()
        if name.startswith("check_") and name not in STEPS
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-v", "--verbose", action="store_true", help="name every check")
    report = Report(parser.parse_args().verbose)
    for group in GROUPS:
        for check in checks_of(group):
            report.group = check.__name__.removeprefix("check_")
            try:
                check(report)
            except Exception as error:
                report.fail("ended early", "".join(traceback.format_exception(error)))
    report.group = "files"
    for path in report.unread():
        report.fail(path.name, "no check reads it")
    seconds = time.monotonic() - report.started
    print("%d files, %d answers held, %d forgeries refused, %.1f s, %d failed" % (
        len(report.read), report.held, report.refused, seconds, len(report.failed)
    ))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
