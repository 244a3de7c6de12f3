"""The form of calls, each tool by itself, so that none spoils the others. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.engine.grammar import NotEnforced
from core.engine.grammar.degrade import shortfall, warning
from core.engine.grammar.plan import make_plan
from core.engine.grammar.screen import NotPossible, TooLong, place_of
from core.engine.tools.formats import callable_tools
from core.errors import BadRequest

if TYPE_CHECKING:
    from core.engine.grammar import Grammars
    from core.engine.request import Tool, ToolUse
    from core.engine.tools.family import Family, Format

_MOST_TOLD = 8
_LONGEST_PLACE = 200


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The calls that an answer may make."""

    format: Format
    """What they look like, for `Grammars.prepare`."""
    warnings: tuple[str, ...]
    """What of the tools' schemas is not enforced, one sentence for each tool."""
    fitted: bool
    """Whether any tool's schema is more than a grammar that is known to be quick."""


class CallFormats:
    """Makes formats of calls for one model."""

    def __init__(self, family: Family, grammars: Grammars) -> None:
        """Take how the model calls, and what compiles grammars."""
        self._family = family
        self._grammars = grammars

    def prepare(self, tools: ToolUse, *, alone: bool = False) -> Calls:
        """Return what calls look like. A tool that cannot be enforced takes any object.

        Args:
            tools: at least one may be called.
            alone: compile each tool by itself that is not known to be quick, and leave out what
                does not compile.

        Raises:
            BadRequest: a schema holds more than 8 KiB of text that fails a cheap check.
        """
        warnings: list[str] = []
        kept: list[Tool] = []
        fitted = False
        for tool in callable_tools(tools):
            one, reason, is_plain = self._fit(tool, tools, alone=alone)
            fitted = fitted or not is_plain
            kept.append(one)
            if reason:
                warnings.append(warning(NotEnforced(reason=f"tool {tool.name}: {reason}")))
        if len(warnings) > _MOST_TOLD:
            more = len(warnings) - _MOST_TOLD
            warnings[_MOST_TOLD:] = [warning(NotEnforced(reason=f"parts of {more} more tools"))]
        wanted = replace(tools, tools=tuple(kept))
        return Calls(
            format=self._family.call_format(wanted), warnings=tuple(warnings), fitted=fitted
        )

    def _fit(self, tool: Tool, tools: ToolUse, *, alone: bool) -> tuple[Tool, str, bool]:
        """Return the tool as it is enforced, what of it is not, and whether it is plain."""
        try:
            format_ = self._family.call_format(replace(tools, tools=(tool,)))
            plan = make_plan(None, format_)
            if alone and not plan.plain:
                made = self._grammars.prepare(None, calls=format_)
                if isinstance(made, NotEnforced):
                    return replace(tool, parameters={}), _any_object(made.reason), True
        except TooLong as problem:
            raise refusal(problem, tool.parameters, tool.field) from problem
        except NotPossible as problem:
            return replace(tool, parameters={}), _any_object(str(problem)), True
        return tool, shortfall(plan.unenforced), plan.plain


def _any_object(reason: str) -> str:
    return f"{reason}; its arguments may be any object"


def refusal(problem: TooLong, source: Any, field: str) -> BadRequest:
    """Return the error for a form that is long and fails a cheap check.

    Args:
        problem: what is wrong.
        source: the form.
        field: where it stands in the request; empty: that is not known.
    """
    place = place_of(source, problem.text)
    field = f"{field}{place}"[:_LONGEST_PLACE]
    return BadRequest(f"{field or 'The grammar'} cannot be used: {problem}.", field=field or None)
