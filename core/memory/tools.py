"""The read-only tools by which a model consults the vault; chat and the MCP server share them.

A tool always answers with text: a missing vault, an unknown article and wrong arguments are
answers, too. What comes from the vault is marked as data (`core.memory.pages`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from core.errors import MlxbunError, NotFound, VaultMissing
from core.memory.article import parse
from core.memory.graph import links_of
from core.memory.pages import PAGE_CHARACTERS, Data, NoSuchPage, answer
from core.memory.status import vault_status
from core.memory.vault import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.memory.opening import Memory
    from core.memory.vault import Page

    Arguments = Mapping[str, Any]

_MOST_RESULTS = 50
_FEW_RESULTS = 10
_MOST_LEFT_OUT = 3  # files that are named
_NAMED = 12  # sections in an answer to a wrong anchor


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as it is described to models."""

    name: str
    """`memory_…`."""
    description: str
    """What it does and when to use it."""
    parameters: Mapping[str, Any]
    """JSON Schema of its arguments, an object."""


@dataclass(frozen=True, kw_only=True)
class _Parameter:
    """One argument."""

    kind: Literal["string", "integer"]
    """Its type in JSON."""
    description: str = ""
    """For the model; empty: the name is enough."""
    required: bool = False
    """Whether a call must have it."""
    default: str | int | None = None
    """What it is if it is left out."""
    choices: tuple[str, ...] = ()
    """The only strings that are allowed; empty: any."""
    most: int = 100_000
    """Largest integer; the smallest is 1."""

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema, short, because it uses context in every conversation.

        Ranges and defaults are left to the check of a call, which says them.
        """
        schema: dict[str, Any] = {"type": self.kind}
        if self.description:
            schema["description"] = self.description
        if self.choices:
            schema["enum"] = list(self.choices)
        return schema


@dataclass(frozen=True, kw_only=True)
class _Tool:
    """A tool: what it takes, and what it does."""

    description: str
    """For the model."""
    run: Callable[[Memory, Arguments], Data]
    """Returns what it finds; all arguments are there and have their types."""
    parameters: Mapping[str, _Parameter] = field(default_factory=dict)
    """By name."""

    def spec(self, name: str) -> ToolSpec:
        """Return it as it is described to models."""
        return ToolSpec(
            name=name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": {key: each.schema() for key, each in self.parameters.items()},
                "required": [key for key, each in self.parameters.items() if each.required],
                "additionalProperties": False,
            },
        )


class MemoryTools:
    """Answers the calls of a model. Safe in any thread."""

    def __init__(self, open_memory: Callable[[], Memory]) -> None:
        """Take what opens the vault; it is called again until there is one.

        Args:
            open_memory: opens the vault that is meant, or raises VaultMissing.
        """
        self._open = open_memory
        self._memory: Memory | None = None

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a tool's answer, at most `RESULT_CHARACTERS` characters.

        Args:
            name: of the tool; an unknown one is an answer.
            arguments: as the model wrote them; wrong ones are an answer.
        """
        try:
            tool = _tool(name)
            given = _checked(name, tool, arguments)
            return answer(tool.run(self._opened(), given), int(given.get("page", 1)))
        except (MlxbunError, NoSuchPage) as problem:
            return _explained(problem)
        except OSError as problem:
            return f"The vault cannot be read: {problem.strerror or problem}."

    def _opened(self) -> Memory:
        if self._memory is None or not self._memory.vault.exists:
            self._memory = self._open()
        return self._memory


def _explained(problem: MlxbunError | NoSuchPage) -> str:
    if isinstance(problem, VaultMissing):
        return (
            "There is no memory yet: the user has not created a vault. Answer without it. "
            "The user can create one with `mlxbun memory init`."
        )
    hint = getattr(problem, "hint", None)
    return f"{problem} {hint}" if hint else str(problem)


def _tool(name: str) -> _Tool:
    if name not in _TOOLS:
        raise NotFound(f"There is no tool {name[:80]!r}.", hint=f"Tools: {', '.join(_TOOLS)}.")
    return _TOOLS[name]


def _checked(name: str, tool: _Tool, arguments: Arguments) -> dict[str, Any]:
    """Return all arguments of a tool, with defaults.

    Raises:
        NotFound: one is missing, unknown, or of another type.
    """
    unknown = [str(key)[:80] for key in arguments if key not in tool.parameters]
    if unknown:
        known = ", ".join(tool.parameters) or "none"
        raise NotFound(f"{name} has no argument {unknown[0]!r}.", hint=f"Arguments: {known}.")
    given = {key: _value(name, key, each, arguments) for key, each in tool.parameters.items()}
    return {key: value for key, value in given.items() if value is not None}


def _value(name: str, key: str, parameter: _Parameter, arguments: Arguments) -> str | int | None:
    value = arguments.get(key)
    if value is None:
        if parameter.required:
            raise NotFound(f'{name} needs the argument "{key}": {parameter.description}')
        return parameter.default
    if parameter.kind == "integer":
        return _number(name, key, parameter, value)
    if not isinstance(value, str):
        raise NotFound(f'{name}: "{key}" must be a string.')
    if parameter.choices and value not in parameter.choices:
        raise NotFound(f'{name}: "{key}" must be one of {", ".join(parameter.choices)}.')
    return value


def _number(name: str, key: str, parameter: _Parameter, value: object) -> int:
    # Models write 2 also as "2" and 2.0.
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= parameter.most:
        raise NotFound(f'{name}: "{key}" must be an integer from 1 to {parameter.most}.')
    return value


def _day(seconds: float) -> str:
    """Return the day of a moment in Unix seconds, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _search(memory: Memory, given: Arguments) -> Data:
    found = memory.index.search(
        memory.vault, given["query"], scope=given["scope"], limit=given["limit"]
    )
    lines: list[str] = []
    for summary in found.summaries:
        date = _date_of(memory, summary.article)
        terms = ", ".join(summary.matched_terms)
        matches = f"{summary.occurrences} match{'' if summary.occurrences == 1 else 'es'}"
        lines.append(f"## {summary.article} ({matches}: {terms}; {date})")
        for hit in found.hits:
            if hit.article == summary.article:
                where = f"#{hit.anchor}" if hit.anchor else "lead"
                lines.append(f"- {where}, line {hit.line}: {hit.excerpt}")
    if not lines:
        lines = ["Nothing was found. Try fewer or other words, or call memory_list."]
    return Data(
        text="\n".join(lines),
        source=f"search for {given['query'][:100]}",
        date=_today(),
        notes=_left_out(found.left_out),
    )


def _left_out(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return the first reasons why files are not searched, and how many more there are."""
    more = len(reasons) - _MOST_LEFT_OUT
    rest = (f"{more} more files are not searched.",) if more > 0 else ()
    return (*reasons[:_MOST_LEFT_OUT], *rest)


def _date_of(memory: Memory, article: str) -> str:
    with suppress(OSError, ValueError):
        return _day((memory.root / path_of(article)).lstat().st_mtime)
    return "unknown"


def _read(memory: Memory, given: Arguments) -> Data:
    page = _page(memory, given)
    return _page_data(page, page.text)


def _page(memory: Memory, given: Arguments) -> Page:
    """Return an article by its name; `find` lets no path to `Talk/` through."""
    return memory.vault.read(memory.vault.find(given["name"]), whole=False)


def _page_data(page: Page, text: str, *, anchor: str = "") -> Data:
    return Data(
        text=text,
        source=f"{page.path}#{anchor}" if anchor else page.path,
        date=_day(page.mtime),
        notes=(page.warning,) if page.warning else (),
    )


def _toc(memory: Memory, given: Arguments) -> Data:
    page = _page(memory, given)
    sections = parse(page.text).sections
    lines = [f"{'  ' * max(s.level - 2, 0)}- {s.heading} (#{s.anchor})" for s in sections]
    return _page_data(page, "\n".join(lines) or "The article has no sections.")


def _section(memory: Memory, given: Arguments) -> Data:
    page = _page(memory, given)
    article = parse(page.text)
    found = article.section(given["anchor"])
    if found is None:
        anchors = ", ".join(section.anchor for section in article.sections[:_NAMED])
        raise NotFound(
            f"{page.name} has no section {given['anchor'][:80]!r}.",
            hint=f"Sections: {anchors}." if anchors else "It has no sections; call memory_read.",
        )
    return _page_data(page, found.text, anchor=found.anchor)


def _links(memory: Memory, given: Arguments) -> Data:
    found = links_of(memory.vault, given["name"])
    groups = {
        "Links to": found.outbound,
        "Linked from": found.inbound,
        "Reference documents": found.reference,
        "Not written yet": found.unresolved,
    }
    lines: list[str] = []
    for heading, names in groups.items():
        if names:
            lines += [f"{heading}:", *(f"- {name}" for name in names)]
    lines = lines or ["The article has no links."]
    return Data(text="\n".join(lines), source=f"links of {found.name}", date=_today())


def _list(memory: Memory, given: Arguments) -> Data:
    names = memory.vault.names()
    scope = given["scope"]
    shown = (*names.articles, *names.reference)
    if scope != "all":
        shown = names.articles if scope == "articles" else names.reference
    lines = [f"- {name}" for name in shown]
    return Data(
        text="\n".join(lines) or "There are none.", source=f"list of {scope}", date=_today()
    )


def _status(memory: Memory, _given: Arguments) -> Data:
    status = vault_status(memory.vault)
    lines = [
        f"Vault: {status.root}",
        f"Articles: {status.articles}",
        f"Reference documents: {status.reference}",
        f"Git repository: {'yes' if status.is_git else 'no'}",
        "Changed last:",
        *(f"- {each.article} ({_day(each.modified)})" for each in status.recent),
    ]
    return Data(text="\n".join(lines), source="status of the vault", date=_today())


_NAME = _Parameter(
    kind="string",
    description="Name of an article, an alias, or Reference/NAME.",
    required=True,
)
_PAGE = _Parameter(kind="integer", default=1)
_SCOPE = _Parameter(
    kind="string",
    description="reference: documentation of mlxbun.",
    default="all",
    choices=("all", "articles", "reference"),
)
_TOOLS: dict[str, _Tool] = {
    "memory_search": _Tool(
        description="Search the user's personal wiki. Use it before answering questions about the "
        "user, their projects or people they know. All results come in pages of "
        f"{PAGE_CHARACTERS} characters.",
        run=_search,
        parameters={
            "query": _Parameter(
                kind="string",
                description='Words; "a b" is a phrase, wor* the beginning of a word.',
                required=True,
            ),
            "scope": _SCOPE,
            "limit": _Parameter(
                kind="integer",
                description="Maximum number of articles.",
                default=_FEW_RESULTS,
                most=_MOST_RESULTS,
            ),
            "page": _PAGE,
        },
    ),
    "memory_read": _Tool(
        description="Read an article. For long ones, call memory_toc and memory_section instead.",
        run=_read,
        parameters={"name": _NAME, "page": _PAGE},
    ),
    "memory_toc": _Tool(
        description="List the sections of an article with their anchors.",
        run=_toc,
        parameters={"name": _NAME, "page": _PAGE},
    ),
    "memory_section": _Tool(
        description="Read one section of an article.",
        run=_section,
        parameters={
            "name": _NAME,
            "anchor": _Parameter(
                kind="string",
                description="From memory_toc or memory_search.",
                required=True,
            ),
            "page": _PAGE,
        },
    ),
    "memory_links": _Tool(
        description="List the articles that an article links to, and those that link to it.",
        run=_links,
        parameters={"name": _NAME, "page": _PAGE},
    ),
    "memory_list": _Tool(
        description="List the names of all articles.",
        run=_list,
        parameters={"scope": _SCOPE, "page": _PAGE},
    ),
    "memory_status": _Tool(
        description="Show where the wiki lies, its number of articles, and which changed last.",
        run=_status,
    ),
}
TOOLS: tuple[ToolSpec, ...] = tuple(tool.spec(name) for name, tool in _TOOLS.items())
"""All tools, as they are described to models."""
