"""Signing in: the server's challenge and the device's answer."""

from .devices import server_id
from .encodings import label, need, short
from .suite import check_signature

ACTIONS = ("sign_in", "delete_account")


def check_challenge(pinned_server, token_key, account, device, nonce, signature):
    """What a client checks before it answers."""
    need(server_id(token_key) == pinned_server, "another server")
    check_signature(
        token_key, label("challenge") + pinned_server + account + device + nonce, signature
    )


def check_answer(signing_key, server, action, nonce, signature):
    """What a server checks."""
    need(action in ACTIONS, "no such action")
    check_signature(signing_key, label("sign-in") + server + short(action) + nonce, signature)
