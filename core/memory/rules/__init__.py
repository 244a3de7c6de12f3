"""The rule-based model: answers every stage's question without a language model.

It reads statements in plain English (`english`), and patterns of German, Chinese and Japanese
(`tongues`); everywhere else it takes what the stages would do without asking (`choices`).
Deterministic, linear time. It finds less than a language model, and nothing between the lines.
"""

from core.memory.rules.model import RulesModel

__all__ = ["RulesModel"]
