"""Verbs: where they stand, and their forms. English."""

from __future__ import annotations

from core.memory.rules.statement import SINGULAR, is_name, plain
from core.memory.rules.words import ADVERBS, VERBS

BE = {"am": "is", "is": "is", "are": "are", "was": "was", "were": "were", "be": "be"}

AUXILIARIES = frozenset({"has", "have", "had", "will", "do", "does", "did", "been", "being"})

NOT = frozenset({"not", "don't", "doesn't", "didn't", "isn't", "aren't", "never", "no"})

NOT |= frozenset({"won't", "wasn't", "weren't", "hasn't", "haven't", "can't"})

_MOST_SUBJECT_WORDS = 6

_PARTICIPLES = {
    "written": "write",
    "chosen": "choose",
    "driven": "drive",
    "grown": "grow",
    "taken": "take",
    "spoken": "speak",
    "frozen": "freeze",
    "gone": "go",
    "become": "become",
    "run": "run",
    "given": "get",
    "flown": "fly",
    "worn": "wear",
    "begun": "begin",
    "organised": "organize",
}


PRONOUNS = frozenset({"i", "we", "they", "he", "she", "it"})
"""Of which the next word but adverbs is the verb."""


def verb_at(words: list[str]) -> int | None:
    """Return where the first verb of a clause stands; None: there is none that is known."""
    if plain(words[0]) in PRONOUNS:
        return _unknown_verb(words)
    for number, word in enumerate(words[: _MOST_SUBJECT_WORDS + 1]):
        low = plain(word)
        if number == 0:
            continue
        if low in BE or low in AUXILIARIES or low in NOT:
            return number
        if _is_finite(low, words[:number]):
            return number
    return _unknown_verb(words)


def _is_finite(word: str, before: list[str]) -> bool:
    """Return whether a word is a known verb in a form that fits the subject before it."""
    first = plain(before[0])
    if before[-1].endswith("'s") or not lemma(word):
        return False
    if len(before) == 1 and first in _DETERMINERS:
        return False
    plural = first in ("i", "we", "they", "you") or plain(before[-1]).endswith("s")
    return word not in VERBS or plural or any(plain(w) in ("and", *ADVERBS) for w in before)


def _unknown_verb(words: list[str]) -> int | None:
    """Return where a verb must stand that is not known: after "I", "we" or a name."""
    at = next((i for i in (1, 2) if i < len(words) and plain(words[i]) not in ADVERBS), None)
    if at is None or at + 1 >= len(words):
        return None
    word = words[at]
    if plain(words[0]) in PRONOUNS:
        return at if word.replace("'", "").isalpha() and word.islower() else None
    if at == 1 and is_name(words[0]):
        if plain(words[0]) not in _DETERMINERS:
            return 1 if word.islower() and word.endswith(_ENDS) else None
        return next((i for i in (2, 3) if _looks_finite(words, i)), None)
    return None


def _looks_finite(words: list[str], at: int) -> bool:
    return at + 1 < len(words) and words[at].islower() and words[at].endswith(_ENDS)


_ENDS = ("ed", "es", "ts", "ks", "ns", "rs", "ls", "ps", "ds")
_DETERMINERS = frozenset({"the", "our", "my", "this", "that", "a", "an"})


def lemma(word: str) -> str:
    """Return the base form of a finite form of a known verb; empty: it is none."""
    return _FORMS.get(word, "")


def third_person(verb: str) -> str:
    """Return a verb's form for he, she and it: `go` → `goes`."""
    if verb in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _forms() -> dict[str, str]:
    found: dict[str, str] = {}
    for verb, (past, _property) in VERBS.items():
        for form in (verb, past, third_person(verb)):
            found.setdefault(form, verb)
    return found


_FORMS = _forms()


def verbs_of(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut the verbs (auxiliaries, adverbs, main verb) from the rest."""
    verbs: list[str] = []
    for number, word in enumerate(words):
        low = plain(word)
        known = low in BE or low in AUXILIARIES or low in NOT or low in ADVERBS
        if known:
            verbs.append(low)
        elif (lemma(low) or participle(low)) and not _is_main(verbs):
            return [*verbs, low], words[number + 1 :]
        elif any(verb in BE or verb in ("has", "have", "had") for verb in verbs):
            return verbs, words[number:]
        else:
            return [*verbs, low], words[number + 1 :]
    return verbs, []


def _is_main(verbs: list[str]) -> bool:
    return any(verb in VERBS or lemma(verb) for verb in verbs)


def participle(word: str) -> str:
    """Return the base form of a participle of a known verb; empty: it is none."""
    if word.endswith("ing") and len(word) >= 5:
        stem = word[:-3]
        for candidate in (stem, stem + "e", stem[:-1]):
            if candidate in VERBS:
                return candidate
    return _PARTICIPLES.get(word, "")


def finite(verbs: list[str]) -> str:
    """Return the verbs of "I" or "we" as the third person singular has them."""
    found: list[str] = []
    for number, verb in enumerate(verbs):
        before = set(verbs[:number])
        if before & (AUXILIARIES | _NEGATED) or (before & set(BE) and verb not in ADVERBS):
            found.append(verb)
        elif verb in SINGULAR:
            found.append(SINGULAR[verb])
        elif number == len(verbs) - 1 and verb not in BE and verb not in NOT | AUXILIARIES:
            found.append(_present(verb))
        else:
            found.append(verb)
    return " ".join(found)


_NEGATED = frozenset({"don't", "didn't", "won't", "can't"})


def _present(verb: str) -> str:
    """Return the third person of a present form; a past form or participle stays."""
    base = lemma(verb)
    is_past = verb.endswith(("ed", "ing")) or base not in (verb, "")
    is_same = base == verb and VERBS[verb][0] == verb  # "quit", "set": past as likely as present
    return verb if is_past or is_same else third_person(verb)
