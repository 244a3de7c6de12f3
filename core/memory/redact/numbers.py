"""Numbers that belong to a person: cards, bank accounts, telephones. Checked, not only matched.

Dates, versions, ports, amounts, hashes, UUIDs and ISBNs look like them and are kept.
"""

from __future__ import annotations

import re

from core.memory.redact.words import words

CARD = re.compile(
    r"(?<![\w.+/#-])(?:"
    r"\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}"
    r"|3[47]\d{2}([ -]?)\d{6}\2\d{5}"
    r"|3[068]\d{2}([ -]?)\d{6}\3\d{4}"
    r")(?![\w/-])(?![.,]\d)"
)
_ISSUERS = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|(?:50(?:18|20|38)|6304|67(?:59|6[1-3]))\d{12}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|6(?:011|4[4-9]\d|5\d\d|2\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
)
IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=[ ]?[A-Za-z0-9]{2})")
_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in {
        "15": "NO", "16": "BE", "18": "DK FO FI GL NL SD", "19": "MK SI SK", "20": "AT BA EE KZ LT"
        " LU MN XK", "21": "CH HR LI LV", "22": "BG BH CR DE GB GE IE ME RS VA", "23": "AE IL IQ OM"
        " SO TL", "24": "AD CZ DZ ES MD PK RO SA SE TN VG", "25": "LY PT ST", "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM", "28": "AL AZ BY CY DO GT HN HU LB NI PL SV",
        "29": "BR EG PS QA UA", "30": "JO KW MU YE", "31": "MT SC", "32": "LC", "33": "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Source: SWIFT's IBAN registry."""
PHONE = re.compile(
    r"(?<![\w+./&#-])(?P<prefix>\+|(?<!\d:)(?<!=)00)"
    r"(?P<rest>[1-9]\d{0,14}(?:(?:[ \u00a0./-]|[ ][/-][ ])?(?:\(\d{1,6}\)|\d{1,13})){0,7})"
    r"(?![\w])(?![.,:%]\d)"
)
_GROUPS = re.compile(r"\d+")
_COUNTRIES = words(
    "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63"
    " 64 65 66 81 82 84 86 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227"
    " 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 248 249 250 251"
    " 252 253 254 255 256 257 258 260 261 262 263 264 265 266 267 268 269 290 291 297 298 299 350"
    " 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376 377 378 380 381 382 383 385"
    " 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596"
    " 597 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691"
    " 692 850 852 853 855 856 880 886 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975"
    " 976 977 979 992 993 994 995 996 998"
)
"""Country codes. Source: ITU-T E.164."""


def is_card(text: str) -> bool:
    """Return whether a match of `CARD` is the number of a card: its issuer's range, and Luhn."""
    digits = "".join(_GROUPS.findall(text))
    return _ISSUERS.fullmatch(digits) is not None and _luhn(digits)


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def iban_end(text: str, start: int) -> int | None:
    """Return where the IBAN ends that begins at `start`; None: there is none.

    Its country says how long it is; single spaces may stand in it; its checksum is right.
    """
    length = _IBAN_LENGTHS.get(text[start : start + 2].upper())
    if length is None:
        return None
    compact = ""
    at = start
    while at < len(text) and len(compact) < length:
        if text[at].isascii() and text[at].isalnum():
            compact += text[at].upper()
        elif text[at] != " " or text[at - 1] == " ":
            return None
        at += 1
    if len(compact) < length or (at < len(text) and text[at].isalnum()):
        return None
    moved = compact[4:] + compact[:4]
    number = int("".join(str(int(character, 36)) for character in moved))
    return at if number % 97 == 1 else None


def phone_digits(match: re.Match[str]) -> str | None:
    """Return the digits of a match of `PHONE`, country code first; None: it is not a number."""
    rest = match["rest"].replace("(0)", "")
    groups = _GROUPS.findall(rest)
    digits = "".join(groups)
    country = next((digits[:n] for n in (1, 2, 3) if digits[:n] in _COUNTRIES), None)
    if country is None or not 10 <= len(digits) <= 15:
        return None
    national = digits[len(country) :]
    if country == "1" and (len(digits) != 11 or national[0] in "01"):
        return None
    if (national[0] == "0" and country != "39") or len(set(national)) == 1:
        return None
    if len(groups) > 1 and not _are_grouped(groups, country, rest):
        return None
    if match["prefix"] == "00" and _is_table(groups):
        return None
    return digits


def _are_grouped(groups: list[str], country: str, rest: str) -> bool:
    """Return whether digits stand in groups as those of a telephone number do."""
    if groups[0] != country and len(groups[0]) < len(country) + 2:
        return False
    return not (len(groups) == 2 and "." in rest)  # a decimal fraction


def _is_table(groups: list[str]) -> bool:
    """Return whether groups look like a row of a hex dump, or are missing."""
    return len(groups) == 1 or len({len(group) for group in groups[1:]} | {4}) == 1
