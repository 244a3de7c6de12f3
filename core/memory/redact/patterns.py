"""What keys, tokens and passwords look like.

Every pattern is linear: it begins at a word's boundary with a literal, what repeats is possessive
or bounded, and no two repetitions can match the same text. Sources: the vendors' documentation of
their formats, and the rules of gitleaks and detect-secrets for their names.
"""

from __future__ import annotations

import re

from core.memory.redact.words import words

_WORD = r"[A-Za-z0-9_-]"
_START = r"(?<![A-Za-z0-9_-])"

VENDORS = (
    # prefix to look for first, expression, kind of placeholder
    ("sk-ant-", rf"sk-ant-{_WORD}{{20,}}+", "key"),
    ("sk-", rf"sk-(?!ant-){_WORD}{{20,}}+", "key"),
    ("hf_", r"hf_[A-Za-z0-9]{30,}+", "token"),
    ("api_org_", r"api_org_[A-Za-z0-9]{30,}+", "token"),
    ("gh", r"gh[pousr]_[A-Za-z0-9]{36,}+", "token"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{22,}+", "token"),
    ("gl", rf"gl(?:pat|dt|rt|ft|soat|cbt|ptt|oas|imt|agent|ffct)-{_WORD}{{20,}}+", "token"),
    ("xox", r"xox[abceoprs]-[A-Za-z0-9-]{10,}+", "token"),
    ("xapp-", r"xapp-\d-[A-Za-z0-9-]{20,}+", "token"),
    ("AKIA", r"AKIA[A-Z2-7]{16}(?![A-Za-z0-9])", "key"),
    ("ASIA", r"ASIA[A-Z2-7]{16}(?![A-Za-z0-9])", "key"),
    ("AIza", rf"AIza{_WORD}{{35,}}+", "key"),
    ("ya29.", rf"ya29\.{_WORD}{{20,}}+", "token"),
    ("GOCSPX-", rf"GOCSPX-{_WORD}{{20,}}+", "key"),
    ("_live_", r"[srp]k_live_[A-Za-z0-9]{16,}+", "key"),
    ("_test_", r"[srp]k_test_[A-Za-z0-9]{16,}+", "key"),
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{20,}+", "key"),
    ("npm_", r"npm_[A-Za-z0-9]{36,}+", "token"),
    ("pypi-", rf"pypi-{_WORD}{{50,}}+", "token"),
    ("SG.", rf"SG\.{_WORD}{{16,}}+\.{_WORD}{{30,}}+", "key"),
    ("SK", r"SK[0-9a-f]{32}(?![A-Za-z0-9])", "key"),
    ("do", r"do[opr]_v1_[0-9a-f]{60,}+", "token"),
    ("gsk_", r"gsk_[A-Za-z0-9]{40,}+", "key"),
    ("xai-", r"xai-[A-Za-z0-9]{40,}+", "key"),
    ("r8_", r"r8_[A-Za-z0-9]{30,}+", "token"),
    ("pplx-", r"pplx-[A-Za-z0-9]{40,}+", "key"),
    ("dapi", r"dapi[0-9a-f]{32}(?![A-Za-z0-9])", "token"),
    ("secret_", r"secret_[A-Za-z0-9]{40,}+", "key"),
    ("ntn_", r"ntn_[A-Za-z0-9]{40,}+", "key"),
    ("lin_api_", r"lin_api_[A-Za-z0-9]{30,}+", "key"),
    ("tskey-", rf"tskey-{_WORD}{{20,}}+", "key"),
    ("AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+", "key"),
    ("shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![A-Za-z0-9])", "token"),
    ("dckr_", rf"dckr_[po]at_{_WORD}{{20,}}+", "token"),
    ("sntry", r"sntry[su]_[A-Za-z0-9+/=_]{40,}+", "token"),
    ("hv", rf"hv[sbr]\.{_WORD}{{24,}}+", "token"),
    ("key-", r"key-[0-9a-f]{32}(?![A-Za-z0-9])", "key"),
    (".", rf"[MNO][A-Za-z0-9_-]{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,}}+", "token"),
    (":AA", r"\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])", "token"),
    ("eyJ", rf"eyJ{_WORD}{{10,}}+\.{_WORD}{{10,}}+\.{_WORD}{{5,}}+", "token"),
)
"""Keys and tokens that their own prefix betrays."""
VENDOR_PATTERNS = tuple(
    (prefix, re.compile(_START + expression), kind) for prefix, expression, kind in VENDORS
)
SLACK_HOOK = re.compile(r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,100}+")
KEY_BLOCK = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{1,80}-----"
    # cut short: what is left of its lines
    r"|(?:[\s\\]|[A-Za-z0-9+/=]{16,}+)*+(?:[A-Za-z0-9+/=]{1,15}+\Z)?)"
)
URL_PASSWORD = re.compile(r"(?<=://)([^\s/:@\"'<>\[\]]{0,100}:)([^\s/@\"'<>\[\]]{1,200})(?=@)")
BEARER = re.compile(
    r"(?<![A-Za-z])(bearer[ \t]{1,4}|authorization[\"']?[ \t]{0,2}[:=][ \t]{0,2}[\"']?"
    r"(?:basic|token|bearer)[ \t]{1,4})([A-Za-z0-9._~+/=-]{12,}+)",
    re.IGNORECASE,
)
_PASSWORDS = (
    r"pass ?phrase|pass ?code|passwords?|passwd|passwort|kennwort|mot de passe|contraseña|senha"
    r"|wachtwoord|parola|hasło|пароль|密码|密碼|パスワード|비밀번호|pwd|pass"
)
_KEYS = (
    r"(?:api|access|auth|secret|private|client|signing|encryption|account|master)[ _-]?"
    r"(?:access[ _-]?)?(?:key|token|secret|id[ _-]?token)"
    r"|token|secret|apikey|credentials?"
)
ASSIGNMENT = re.compile(
    rf"(?P<word>(?P<password>{_PASSWORDS})|(?:{_KEYS}))"
    r"(?P<sign>[\"'`*_]{0,3}[ \t]{0,3}(?::=|=>|=|:|：)[ \t]{0,3}"
    r"|[ \t]{1,3}(?:is|ist|lautet|est|es|è|är|jest)[ \t:]{1,3})"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`<>，。]{3,300})(?P<end>[\"'`]?)",
    re.IGNORECASE,
)
"""`password: …`, `API_KEY=…`, `my passphrase is …`; whether it is one, the value decides."""
PHRASE = re.compile(
    r"(pass ?phrase[\"'`]?[ \t]{0,3}(?:[:=]|is)[ \t]{0,3})"
    r"(?:([\"'`])([a-z]{3,12}(?:[ -][a-z]{3,12}){3,11})(?=\2)"
    r"|(?<=[:=][ \t])([a-z]{3,12}(?:[ -][a-z]{3,12}){3,11})(?=[.!]?[ \t]*$))",
    re.IGNORECASE | re.MULTILINE,
)
"""`passphrase: correct horse battery staple`: four words or more."""
ASSIGNMENT_HINTS = (
    "pass", "kennwort", "contraseña", "senha", "wachtwoord", "parola", "hasło", "пароль", "pwd",
    "密码", "密碼", "パスワード", "비밀번호", "key", "token", "secret", "credential",
)  # fmt: skip
_LATIN = r"A-Za-z0-9À-ÖØ-öø-ɏ"
EMAIL = re.compile(
    rf"(?<![{_LATIN}._%+-])([{_LATIN}._%+-](?:[{_LATIN}._%+'-]{{0,63}}+))@"
    rf"((?:[{_LATIN}](?:[{_LATIN}-]{{0,62}})\.){{1,6}}([A-Za-z]{{2,24}}))(?![{_LATIN}(@-])"
)
NOT_DOMAINS = words(
    "png jpg jpeg gif svg webp js ts jsx tsx json css html yml yaml txt log zip gz so dylib"
)
"""Last labels that name a file, not a domain: `icon@2x.png`."""
NOT_MAILBOXES = frozenset(("git", "hg", "svn"))
"""Accounts by which repositories are reached: `git@example.org:team/project`."""
