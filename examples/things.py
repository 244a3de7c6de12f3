"""What the examples ask about."""

from __future__ import annotations

PLACES = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo",
    "Peru": "Lima", "Cuba": "Havana", "Kenya": "Nairobi", "Norway": "Oslo", "Greece": "Athens",
    "Austria": "Vienna", "Poland": "Warsaw", "Portugal": "Lisbon", "Ireland": "Dublin",
    "Hungary": "Budapest", "Denmark": "Copenhagen", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Thailand": "Bangkok", "Vietnam": "Hanoi", "Chile": "Santiago", "Morocco": "Rabat",
    "Ghana": "Accra", "Nepal": "Kathmandu", "Iceland": "Reykjavik", "Romania": "Bucharest",
    "Bulgaria": "Sofia", "Lebanon": "Beirut", "Uganda": "Kampala", "Senegal": "Dakar",
}  # fmt: skip
"""Countries and their capitals."""

OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "up": "down", "old": "young", "day": "night",
    "open": "closed", "light": "dark", "hard": "soft", "early": "late", "high": "low",
    "left": "right", "rich": "poor", "wet": "dry", "happy": "sad", "full": "empty",
    "strong": "weak", "long": "short", "near": "far", "loud": "quiet", "clean": "dirty",
    "sharp": "blunt", "first": "last", "thick": "thin", "wide": "narrow", "true": "false",
}  # fmt: skip
"""Words and their opposites."""
PLURALS = {
    "mouse": "mice", "cat": "cats", "child": "children", "box": "boxes", "leaf": "leaves",
    "city": "cities", "dog": "dogs", "foot": "feet", "tooth": "teeth", "goose": "geese",
    "man": "men", "woman": "women", "knife": "knives", "wolf": "wolves", "baby": "babies",
    "bus": "buses", "dish": "dishes", "tree": "trees", "house": "houses", "book": "books",
    "story": "stories", "hero": "heroes", "potato": "potatoes", "table": "tables", "fox": "foxes",
    "lady": "ladies", "shelf": "shelves", "church": "churches", "car": "cars", "key": "keys",
}  # fmt: skip
"""Nouns and their plurals."""
