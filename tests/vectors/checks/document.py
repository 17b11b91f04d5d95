"""The document itself: it names every file and every label, and they are all in use here."""

import re

from .report import DIRECTORIES, HERE

ROOT = HERE.parent.parent
INSIDE_A_SERVER = {"server-cursor", "server-invite"}


def section(title, document="protocol.md"):
    """The text under a heading of a document."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return text.split("\n## %s\n" % title)[1].split("\n## ")[0]


def table_words(text, column):
    """What stands in backticks in a column of the tables of a text."""
    rows = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    return {word for row in rows[2:] for word in re.findall(r"`([^`]+)`", row[column])}


def check_files_are_named(report):
    here = {path.stem for directory in (DIRECTORIES[0], HERE) for path in directory.glob("*.json")}
    report.same("files", sorted(table_words(section("Vectors"), 2)), sorted(here))


def check_labels_are_used(report):
    named = table_words(section("Labels"), 1) - INSIDE_A_SERVER
    code = "".join(path.read_text(encoding="utf-8") for path in (HERE / "protocol").glob("*.py"))
    for name in sorted(named):
        stem = re.sub("-(new|old)$", "-", name)
        report.holds(name, '"%s"' % name in code or '"%s" + side' % stem in code)
    used = set(re.findall(r"(?:label|derive|derive_key)\((?:[\w.]+(?:\([\w]*\))?, )?\"([a-z-]+[a-z])\"", code))
    report.same("labels that are not in the document", sorted(used - named), [])


def check_alarms_are_explained(report):
    explained = table_words(section("Status", "apps.md"), 1)
    judged = set(re.findall(r"\(`([a-z_]+)`\)", section("What a client judges")))
    attacks = section("What a bad server could try", "threat-model.md")
    for name in sorted(judged | table_words(attacks, 3) - {"waiting"}):
        report.holds(name, name in explained)
    report.holds("the document names alarms", len(judged) > 8)
