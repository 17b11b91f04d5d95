"""The published vectors of what Tidings builds on, against the primitives of this client."""

from primitives import bip39, blake3, edwards, hpke, mlkem, sealing, spake2

from .report import unhex


def check_blake3(report):
    file = report.published("blake3")
    for case in file["vectors"]:
        data = bytes(at % 251 for at in range(case["input_len"]))
        what = "%d bytes" % case["input_len"]
        report.same(what, blake3.hash(data).hex(), case["hash"])
        derived = blake3.derive_key(file["context"], data)
        report.same(what + ", derive-key", derived.hex(), case["derive_key"])


def check_ed25519(report):
    for case in report.published("rfc8032")["vectors"]:
        public, message, signature = unhex(case, "public", "message", "signature")
        report.holds("signature", edwards.verify(public, message, signature))
        report.holds("another message", not edwards.verify(public, message + b"\0", signature))
        # S + L gives the same equation: one message would have two signatures.
        s = int.from_bytes(signature[32:], "little") + edwards.ORDER
        second = signature[:32] + s.to_bytes(32, "little")
        report.holds("S not below the order", not edwards.verify(public, message, second))


def check_ed25519_strict(report):
    for number, case in enumerate(report.published("ed25519_strict")["vectors"]):
        verified = edwards.verify(*unhex(case, "public", "message", "signature"))
        report.same("case %d" % number, verified, case["counts"])


def check_x25519(report):
    for case in report.published("rfc7748")["vectors"]:
        report.same("product", hpke.x25519(*unhex(case, "scalar", "u")).hex(), case["output"])
    report.same("a point of small order", hpke.x25519(bytes([1]) * 32, bytes(32)), bytes(32))


def check_xchacha20_poly1305(report):
    for case in report.published("xchacha20poly1305")["vectors"]:
        key, nonce, data, plaintext = unhex(case, "key", "nonce", "data", "plaintext")
        sealed = sealing.seal_at(key, nonce, data, plaintext)
        report.same("sealed", sealed.hex(), case["ciphertext"] + case["tag"])
        report.same("opened", sealing.open_at(key, nonce, data, sealed), plaintext)
        report.same("other data", sealing.open_at(key, nonce, data + b"\0", sealed), None)


def check_ml_kem(report):
    for case in report.published("mlkem768")["vectors"]:
        seed, ciphertext = unhex(case, "seed", "ciphertext")
        ek, dk = mlkem.keygen(seed[:32], seed[32:])
        report.same("encapsulation key", ek.hex(), case["ek"])
        report.same("a false ciphertext", mlkem.decapsulate(dk, ciphertext).hex(), case["shared"])
        report.holds("the key's check", mlkem.is_encapsulation_key(ek))
        report.holds("a coefficient of 4095", not mlkem.is_encapsulation_key(b"\xff\xff" + ek[2:]))


def check_x_wing(report):
    for case in report.published("xwing")["vectors"]:
        key = hpke.XWingKey(unhex(case, "sk"))
        report.same("public key", key.public.hex(), case["pk"])
        shared, enc = hpke.x_wing_encapsulate(key.public, unhex(case, "eseed"))
        report.same("encapsulated key", enc.hex(), case["ct"])
        report.same("shared secret, encapsulated", shared.hex(), case["ss"])
        report.same("shared secret, decapsulated", key.decapsulate(enc).hex(), case["ss"])


def check_hpke(report):
    for case in report.published("rfc9180")["vectors"]:
        shared = hpke.dhkem_decapsulate(*unhex(case, "skRm", "enc"))
        info, data, sealed = unhex(case, "info", "aad", "ct")
        opened = hpke.open_base(hpke.DHKEM_X25519, shared, info, data, sealed)
        report.same("opened", opened.hex(), case["pt"])
        other = hpke.open_base(hpke.X_WING, shared, info, data, sealed)
        report.same("under another suite", other, None)


def check_spake2(report):
    for case in report.published("spake2")["vectors"]:
        password = unhex(case, "password")
        both = tuple(unhex(case, "identity_a", "identity_b"))
        x, y = (int.from_bytes(scalar, "little") for scalar in unhex(case, "scalar_a", "scalar_b"))
        a, b = spake2.message_a(password, x), spake2.message_b(password, y)
        report.same("message of A", a.hex(), case["message_a"])
        report.same("message of B", b.hex(), case["message_b"])
        report.same("key of A", spake2.key_of_a(password, both, x, a, b).hex(), case["key"])
        report.same("key of B", spake2.key_of_b(password, both, y, a, b).hex(), case["key"])
        wrong = spake2.key_of_a(b"guess", both, x, a, b)
        report.holds("another password", wrong.hex() != case["key"])
        report.same("a message of the own side", spake2.key_of_a(password, both, x, a, a), None)
        report.same("a message cut off", spake2.key_of_a(password, both, x, a, b[:32]), None)


def check_bip39(report):
    for case in report.published("bip39")["vectors"]:
        words = case["words"].split()
        report.same("entropy", bip39.entropy(words).hex(), case["entropy"])
        report.same("seed", bip39.seed(words, case["passphrase"]).hex(), case["seed"])
        report.same("a word less", bip39.entropy(words[1:]), None)
        report.same("a false checksum", bip39.entropy(words[:-1] + ["zoo"]), None)
    digest = "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
    report.same("the list of words", bip39.hashlib.sha256(bip39.WORDS_FILE.read_bytes()).hexdigest(), digest)
