"""Readers of conversations: one module per kind of source, and what they share.

A reader yields what it finds as `RawConversation`, secrets and all; `finish` makes of it what may
be stored. Readers keep nothing and never fail because of what a source holds: what they cannot use
is counted in a `ReadLog`.
"""
