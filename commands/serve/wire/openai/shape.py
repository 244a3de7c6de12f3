"""How the answer to a request is written, where requests differ in that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AnswerShape:
    """What an encoder must know of a request."""

    each: int = 1
    """Choices for each prompt; the choices of one prompt follow one another."""
    echo: tuple[str, ...] = ()
    """The prompts, where their answers begin with them; empty: they do not."""
    arrays: bool = False
    """Whether log-probabilities are four arrays, as OpenAI's completions have them."""
    function_call: bool = False
    """Whether a call is written as `function_call`, the older form of `tool_calls`."""

    def echoed(self, choice: int) -> str:
        """Return the text that an answer begins with."""
        return self.echo[choice // self.each] if self.echo else ""
