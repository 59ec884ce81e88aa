"""The bugs that audit.py plants: what docs/DECISIONS/0011-protocol.md warns of, and more of that kind.

Each: why the rule is there; the codes of which one must be what a seed fails with; scenarios that must fail; and the
edits: file, a text that is there exactly once (white space aside), what replaces it. Where a shallow checker would see
the mistake at its first step, the plant blinds that checker, so that the audit shows the deep one working.
"""
from . import (anybody, choices, crowds, direct_exchange, first_five, handshakes, hubs, liars, machines, members,
               membership, operations, pairs, reach, replans, restart, rounds, shared_state, subgroups, topology,
               verdicts, waiting)

# In the order in which they are planted.
AREAS = [first_five, operations, members, rounds, membership, crowds, restart, machines, direct_exchange, hubs,
         shared_state, topology, subgroups, pairs, anybody, choices, verdicts, replans, liars, handshakes, reach,
         waiting]

PLANTS = [bug for area in AREAS for bug in area.PLANTS]
