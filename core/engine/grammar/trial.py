"""Try a form in a process of its own before this one dares to.

xgrammar can take hours over a form, or gigabytes, and nothing stops it within a process. Whatever
is not plain is compiled there first, and followed for some random steps; a process that takes too
long is ended, and the form is not enforced.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.engine.grammar.plan import Plan
from core.engine.grammar.screen import NotPossible

if TYPE_CHECKING:
    from core.engine.grammar.build import Tokens

_SECONDS = 20.0
_MEMORY = 4 * 2**30
_WALKS = 4
_STEPS = 80
_SLOW_STEP = 0.1  # seconds of computing: how busy the machine is must not matter
_TOO_SLOW = "following the grammar takes too long"
_PLACE = ".cc:"
"""What marks a line of xgrammar's."""
_ROOT = Path(__file__).parents[3]
_START = (
    f"import sys; sys.path.insert(0, {str(_ROOT)!r})\n"
    "from core.engine.grammar.trial import serve; serve()"
)


def try_out(plan: Plan, tokens: Tokens, *, seconds: float = _SECONDS) -> None:
    """Compile and follow a plan in another process.

    Args:
        plan: the form.
        tokens: the model's.
        seconds: how long it may take.

    Raises:
        NotPossible: it does not compile, or not in time, or is slow to follow.
    """
    question = {
        "plan": asdict(plan),
        "texts": [text.hex() for text in tokens.texts],
        "stop_ids": tokens.stop_ids,
    }
    # -P: the folder that a user happens to be in is no place to import from.
    command = [sys.executable, "-P", "-c", _START]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise NotPossible(f"compiling takes longer than {seconds:.0f} seconds") from late
    except OSError as problem:
        raise NotPossible("no process could be started to try it in") from problem
    reason = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0 or reason:
        raise NotPossible(reason or "compiling failed")
    # What xgrammar says by the way, it says of something that it does not follow. Compiling here
    # would put the same line on our stderr.
    lines = done.stderr.decode(errors="replace").splitlines()
    if said := next((line for line in lines if _PLACE in line), ""):
        raise NotPossible(tell(RuntimeError(said)))


def serve() -> None:
    """Answer the one question on stdin: nothing when the form is all right, else what is wrong."""
    from core.engine.grammar.build import Tokens, compile_plan, make_compiler
    from core.engine.grammar.library import load_xgrammar

    question = json.load(sys.stdin)
    _limit_memory()
    tokens = Tokens(
        texts=tuple(bytes.fromhex(text) for text in question["texts"]),
        stop_ids=tuple(question["stop_ids"]),
    )
    xgrammar = load_xgrammar()
    try:
        compiled = compile_plan(xgrammar, make_compiler(xgrammar, tokens), Plan(**question["plan"]))
    # Whatever it is, the form does not compile.
    except Exception as refusal:
        sys.stdout.write(tell(refusal))
        return
    sys.stdout.write(_walk(xgrammar.GrammarMatcher(compiled), len(tokens.texts)))


def tell(refusal: Exception) -> str:
    """Return what an error of xgrammar says, without its places in C++; one line of ASCII."""
    lines = str(refusal).strip().splitlines()
    text = lines[0] if lines else type(refusal).__name__
    for marker in ("is false: ", _PLACE):
        if marker in text:
            text = text.split(marker, 1)[1]
            if marker == _PLACE:
                text = text.partition(": ")[2] or text
    return text.encode("ascii", "replace").decode()[:200]


def _walk(matcher: Any, vocabulary: int) -> str:
    """Follow random texts of the grammar; return what is wrong, or nothing."""
    import numpy as np

    from core.engine.grammar.build import new_mask

    mask = new_mask(vocabulary)
    chance = random.Random(0)
    for _ in range(_WALKS):
        matcher.reset()
        for _ in range(_STEPS):
            start = time.process_time()
            limits = matcher.fill_next_token_bitmask(mask, 0)
            if time.process_time() - start > _SLOW_STEP:
                return _TOO_SLOW
            bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")[:vocabulary]
            allowed = np.flatnonzero(bits) if limits else range(vocabulary)
            if not len(allowed):
                break
            start = time.process_time()
            matcher.accept_token(int(allowed[chance.randrange(len(allowed))]))
            if time.process_time() - start > _SLOW_STEP:
                return _TOO_SLOW
            if matcher.is_terminated():
                break
    return ""


def _limit_memory() -> None:
    # Not every system has it, or lets it be set.
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
