"""The paper key: a device that is twelve words."""

import re

from primitives import bip39

from .devices import PAPER, DeviceKeys
from .encodings import need
from .suite import derive


def read_words(text):
    """The device of the words, as a person types them: in any case, with anything but letters
    between them."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    need(len(words) == 12 and bip39.entropy(words) is not None, "not a paper key")
    seed = bip39.seed(words)
    return DeviceKeys(PAPER, derive(seed, "paper-signing"), derive(seed, "paper-wrapping"))
