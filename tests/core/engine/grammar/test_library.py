"""xgrammar works where torch is absent, and leaves no trace of the placeholder."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys
import numpy as np
from core.engine.grammar.library import load_xgrammar

xgr = load_xgrammar()
again = load_xgrammar() is xgr
vocabulary = ["a", "b", "{", "}", "</s>"]
info = xgr.TokenizerInfo(vocabulary, stop_token_ids=[4])
grammar = xgr.GrammarCompiler(info).compile_grammar(xgr.Grammar.from_ebnf('root ::= "a" "b"'))
matcher = xgr.GrammarMatcher(grammar)
mask = np.full(xgr.get_bitmask_shape(1, 5), -1, np.int32)
allowed = []
for token in (0, 1):
    matcher.fill_next_token_bitmask(mask, 0)
    allowed.append([t for t in range(5) if mask[0, 0] >> t & 1])
    assert matcher.accept_token(token)
print(json.dumps({"again": again, "allowed": allowed, "torch": "torch" in sys.modules,
                  "transformers": "transformers" in sys.modules}))
"""


def test_masks_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {
        "again": True,
        "allowed": [[0], [1]],
        "torch": False,
        "transformers": False,
    }
