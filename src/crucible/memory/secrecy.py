"""What must never be remembered, whoever says it: keys, passwords, numbers of cards and the like."""

from __future__ import annotations

import math
import re
from collections import Counter

_MOST_LETTERS = 20_000

_NAMED = re.compile(
    r"\b(?:pass(?:word|phrase|code|wort)?|pwd|secret|api[ _-]?key|access[ _-]?key|private[ _-]?key|signing[ _-]?key"
    r"|(?:auth|access|bearer|api|refresh|session)?[ _-]?token|credentials?|pin(?:[ _-]?code)?|one[ -]?time code|"
    r"otp|2fa code"
    r"|recovery (?:code|phrase|key)|seed phrase|cvv|cvc|security code|license key)\b"
    r"[^.!?\n]{0,40}?(?:\bis\b|\bare\b|\bwas\b|=|:|->|\bto\b)\s*\S",
    re.IGNORECASE,
)
_KNOWN_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\bA(?:KIA|SIA)[0-9A-Z]{12,}|\bxox[abeprs]-[\w-]{8,}|\bAIza[\w-]{20,}|\bhf_[A-Za-z0-9]{16,}|"
    r"\bnpm_[A-Za-z0-9]{16,}"
    r"|\beyJ[\w-]{8,2000}\.[\w-]{4,}|\bya29\.[\w-]{8,}|\bSG\.[\w-]{8,}"
    r"|\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,200}:[^\s/@]{1,200}@"
    r"|\bBearer\s+[\w.~+/-]{12,}"
)
_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_CARD = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")
_SOCIAL = re.compile(r"\b\d{3}-\d{2}-\d{4}\b")
_LEAST_ENTROPY = 3.3
_LEAST_ENTROPY_OF_WORDS = 4.0


def is_secret(text: str) -> bool:
    """True where in doubt: what is not remembered can be said again. Texts too long to look at are secret too."""
    if len(text) > _MOST_LETTERS:
        return True
    return bool(
        _NAMED.search(text)
        or _KNOWN_FORMS.search(text)
        or _SOCIAL.search(text)
        or any(_fits_a_card(match.group()) for match in _CARD.finditer(text))
        or any(_looks_random(match.group()) for match in _TOKEN.finditer(text))
    )


def _fits_a_card(text: str) -> bool:
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _looks_random(token: str) -> bool:
    """Letters and digits mixed, with little that comes twice: no word and no path looks like that."""
    digits = sum(letter.isdigit() for letter in token)
    is_mixed = token != token.lower() and token != token.upper()
    if digits == 0 or digits == len(token) or (digits < 3 and not is_mixed):
        return False
    counts = Counter(token)
    entropy = -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values())
    return entropy >= (_LEAST_ENTROPY if digits >= 3 else _LEAST_ENTROPY_OF_WORDS)
