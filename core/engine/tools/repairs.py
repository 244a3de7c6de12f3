"""The names under which `usage.repairs` lists what was repaired in the markup of calls.

A repair neither loses nor invents text. Where one would, the arguments go out as the model wrote
them instead.
"""

from __future__ import annotations

CODE_FENCE = "code_fence"
"""A fence around the call was removed."""
PROSE_PREFIX = "prose_prefix"
"""Text between the marker and the call was removed."""
QUOTES = "quotes"
"""Single quotes, or none, became double quotes."""
TRAILING_COMMA = "trailing_comma"
"""A comma before a closing bracket was removed."""
PYTHON_LITERAL = "python_literal"
"""`True`, `False` and `None` became `true`, `false` and `null`."""
CONTROL_CHARACTERS = "control_characters"
"""Line breaks and other control characters in strings were escaped."""
CLOSING_BRACKETS = "closing_brackets"
"""Closing brackets missing behind a complete value were added."""
CLOSING_TAGS = "closing_tags"
"""Closing tags missing behind a complete argument were added."""
EXTRA_BRACKETS = "extra_brackets"
"""Closing brackets behind a complete call were removed."""
LIFTED_NAME = "lifted_name"
"""The function's name was taken out of the arguments."""
LIFTED_ARGUMENTS = "lifted_arguments"
"""Arguments beside the function's name were put into an object of their own."""
