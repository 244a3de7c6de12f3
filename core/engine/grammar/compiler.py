"""Forms made ready for rows: compiled once per model, in the caller's thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.engine.grammar.build import bits_of, compile_plan, make_compiler, new_mask
from core.engine.grammar.degrade import shortfall
from core.engine.grammar.library import INSTALL_HINT, load_xgrammar
from core.engine.grammar.matcher import GrammarConstraint
from core.engine.grammar.plan import NotEnforced, Plan, make_plan
from core.engine.grammar.screen import NotPossible, TooLong
from core.engine.grammar.trial import tell, try_out
from core.engine.grammar.vocabulary import TokenTexts
from core.errors import BackendMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from core.engine.grammar.build import Tokens
    from core.engine.request import GrammarSpec
    from core.engine.tokenizer import Tokenizer

_MOST_KEPT = 256
_MOST_BYTES = 256 * 2**20

DISABLED = NotEnforced(reason="grammar compilation disabled by MLXBUN_GRAMMAR=0")
MISSING = NotEnforced(reason="xgrammar is not installed", hint=INSTALL_HINT)


@dataclass(frozen=True, kw_only=True)
class CompiledForm:
    """A form that can be followed by any number of rows at once."""

    start: Callable[[], GrammarConstraint]
    """Makes what follows it in one row."""
    unenforced: tuple[str, ...]
    """Keywords of its schema that it does not enforce; empty: all of it is enforced."""
    size: int
    """Bytes that it holds, about."""

    @property
    def shortfall(self) -> NotEnforced | None:
        """What of the form the answer must be told not to be sure of; None: nothing."""
        said = shortfall(self.unenforced)
        return NotEnforced(reason=said) if said else None


@dataclass
class _Entry:
    """What is known of a plan."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever compiles it; others wait for what comes of it."""
    outcome: CompiledForm | NotEnforced | None = None
    """None: not compiled yet."""


class Grammars:
    """The forms of one model. Safe to use from any thread; each compiles in its own.

    Attributes:
        lost: rows that a grammar was given up for on the way, by reason.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocabulary_size: int,
        eos_ids: Iterable[int],
        *,
        enabled: bool = True,
    ) -> None:
        """Take the model's facts; nothing is imported or read before it is needed.

        Args:
            tokenizer: the model's.
            vocabulary_size: the width of its logits.
            eos_ids: tokens that end an answer.
            enabled: whether anything is enforced (`MLXBUN_GRAMMAR`).
        """
        self.lost: dict[str, int] = {}
        self._tokenizer = tokenizer
        self._size = vocabulary_size
        self._eos_ids = frozenset(eos_ids)
        self._enabled = enabled
        self._entries: OrderedDict[Plan, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._xgrammar: Any = None
        self._texts: TokenTexts | None = None
        # By whether JSON is meant, and by the special tokens that calls are made of.
        self._compilers: dict[tuple[bool, frozenset[str]], tuple[Any, Tokens]] = {}

    def prepare(
        self, spec: GrammarSpec | None, *, calls: Mapping[str, Any] | None = None
    ) -> CompiledForm | NotEnforced:
        """Return a form that is ready to be followed, or why it is not.

        Leaves out what is not enforced of calls: `core.engine.calling` names it for each tool.

        Args:
            spec: what the text must match; None: only calls.
            calls: what calls look like, the `format` of an xgrammar structural tag; beside a form,
                the answer is either the calls or the form. None: no calls.

        Raises:
            TooLong: it has more than 8 KiB and fails a cheap check.
        """
        if not self._enabled:
            return DISABLED
        try:
            plan = make_plan(spec, calls)
        except TooLong:
            raise
        except NotPossible as problem:
            return NotEnforced(reason=str(problem))
        entry = self._entry(plan)
        with entry.lock:
            if entry.outcome is None:
                entry.outcome = self._make(plan)
        self._trim()
        return entry.outcome

    def blanks(self) -> list[int]:
        """Return the tokens that are nothing but spaces and line ends; empty without xgrammar."""
        try:
            return self._load().blanks() if self._enabled else []
        except BackendMissing:
            return []

    def _entry(self, plan: Plan) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(plan, _Entry())
            self._entries.move_to_end(plan)
            return entry

    def _trim(self) -> None:
        """Forget what was not asked for in longest."""
        with self._lock:
            size = sum(_size(entry) for entry in self._entries.values())
            while len(self._entries) > 1 and (
                len(self._entries) > _MOST_KEPT or size > _MOST_BYTES
            ):
                size -= _size(self._entries.popitem(last=False)[1])

    def _make(self, plan: Plan) -> CompiledForm | NotEnforced:
        try:
            texts = self._load()
            compiler, tokens = self._compiler(plan, texts)
            if not plan.plain:
                try_out(plan, tokens)
            compiled = compile_plan(self._xgrammar, compiler, plan)
        except BackendMissing:
            return MISSING
        except NotPossible as problem:
            return NotEnforced(reason=str(problem))
        # Whatever a foreign compiler raises, it refuses this form.
        except Exception as refusal:
            return NotEnforced(reason=tell(refusal))
        if not _can_start(self._xgrammar.GrammarMatcher(compiled), self._size):
            return NotEnforced(reason="no text matches it")
        return self._form(plan, compiled, bits_of(tokens.stop_ids, self._size))

    def _form(self, plan: Plan, compiled: Any, stops: NDArray[Any]) -> CompiledForm:
        def start() -> GrammarConstraint:
            return GrammarConstraint(
                self._xgrammar.GrammarMatcher(compiled),
                vocabulary=self._size,
                stops=stops,
                on_lost=self._count,
            )

        return CompiledForm(
            start=start, unenforced=plan.unenforced, size=int(compiled.memory_size_bytes)
        )

    def _load(self) -> TokenTexts:
        """Return the model's tokens; imports xgrammar.

        Raises:
            BackendMissing: it is not installed.
        """
        with self._making:
            if self._texts is None:
                self._xgrammar = load_xgrammar()
                self._texts = TokenTexts(
                    self._xgrammar,
                    self._tokenizer.vocabulary(),
                    size=self._size,
                    stop_ids=self._eos_ids,
                )
            return self._texts

    def _compiler(self, plan: Plan, texts: TokenTexts) -> tuple[Any, Tokens]:
        with self._making:
            key = (plan.json, texts.marks_in(plan.calls))
            if key not in self._compilers:
                tokens = texts.tokens(json=plan.json, marks=key[1])
                self._compilers[key] = (make_compiler(self._xgrammar, tokens), tokens)
            return self._compilers[key]

    def _count(self, reason: str) -> None:
        with self._lock:
            self.lost[reason] = self.lost.get(reason, 0) + 1


def _size(entry: _Entry) -> int:
    return entry.outcome.size if isinstance(entry.outcome, CompiledForm) else 0


def _can_start(matcher: Any, vocabulary: int) -> bool:
    """Return whether any token can begin a text of the grammar."""
    mask = new_mask(vocabulary)
    return not matcher.fill_next_token_bitmask(mask, 0) or bool(mask.any())
