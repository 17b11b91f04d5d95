"""Devices, ids, the paper key, signing in."""

from protocol import paper, sign_in
from protocol.devices import COMPUTER, PAPER, DeviceKeys, parse_id, server_id
from protocol.encodings import label, u64

from primitives import bip39

from .report import unhex


def check_device(report):
    vector = report.vector("device")
    exported = unhex(vector, "exported")
    keys = DeviceKeys.read(exported)
    report.same("kind", keys.public.kind, COMPUTER)
    report.same("seeds", exported[2:].hex(), vector["signing_seed"] + vector["wrapping_seed"])
    report.same("signing key", keys.public.signing.hex(), vector["signing_public"])
    report.same("wrapping key", keys.public.wrapping.hex(), vector["wrapping_public"])
    report.same("device id", keys.id().hex(), vector["device_id"])
    account, signature = unhex(vector, "account", "co_signature")
    index = vector["index"]
    check = keys.public.check_co_signature
    check(account, index, signature)
    signed = label("co-signature") + account + u64(index) + keys.id()
    report.same("co-signature, made again", keys.sign(signed).hex(), vector["co_signature"])
    report.flips("co-signature", signature, lambda bytes: check(account, index, bytes))
    report.flips("co-signature's account", account, lambda bytes: check(bytes, index, signature))
    report.refuses("co-signature's index", check, account, index + 1, signature)
    report.refuses("a later format", DeviceKeys.read, b"\2" + exported[1:])
    report.refuses("an unknown kind", DeviceKeys.read, b"\1\3" + exported[2:])
    for text in ("AB" * 16, " " + "ab" * 16, "ab" * 15, "0x" + "ab" * 15, "é" * 32):
        report.refuses("an id as %r" % text, parse_id, text, 16)


def check_paper_key(report):
    vector = report.vector("paper_key")
    words = vector["words"]
    report.same("seed", bip39.seed(words.split()).hex(), vector["bip39_seed"])
    expected = DeviceKeys.read(unhex(vector, "exported"))
    report.same("kind", expected.public.kind, PAPER)
    typed = "\n".join("%d. %s," % (at + 1, word) for at, word in enumerate(words.upper().split()))
    for text in (words, words.upper(), "  " + words.replace(" ", "\n\t"), typed):
        keys = paper.read_words(text)
        report.same("keys", keys.public, expected.public)
        report.same("device id", keys.id().hex(), vector["device_id"])
    report.refuses("eleven words", paper.read_words, words.rsplit(" ", 1)[0])
    report.refuses("thirteen words", paper.read_words, words + " zoo")
    report.refuses("a word that is none", paper.read_words, words.replace("legal", "leagl", 1))
    report.refuses("two words swapped", paper.read_words, words.replace("thank yellow", "yellow thank"))


def check_sign_in(report):
    vector = report.vector("sign_in")
    token_key, server, account, device = unhex(vector, "token_key", "server_id", "account", "device_id")
    nonce, signature, signing = unhex(vector, "nonce", "challenge_signature", "signing_public")
    report.same("server id", server_id(token_key), server)
    given = [server, token_key, account, device, nonce, signature]
    sign_in.check_challenge(*given)
    for at, what in enumerate(("server id", "token key", "account", "device", "nonce", "signature")):
        changed = lambda bytes, at=at: sign_in.check_challenge(*given[:at], bytes, *given[at + 1:])
        report.flips("challenge's " + what, given[at], changed)
    for action, other in (("sign_in", "delete_account"), ("delete_account", "sign_in")):
        answer = unhex(vector, action)
        sign_in.check_answer(signing, server, action, nonce, answer)
        check = sign_in.check_answer
        report.flips(action, answer, lambda bytes: check(signing, server, action, nonce, bytes))
        report.refuses("%s as %s" % (action, other), check, signing, server, other, nonce, answer)
        report.refuses(action + " at another server", check, signing, token_key, action, nonce, answer)
        report.refuses(action + " for another nonce", check, signing, server, action, server, answer)
