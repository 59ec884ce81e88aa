"""Checks the histories of peers (format: history.h) by the promises of docs/RELIABILITY.md.

The rules, each with the name that a violation begins with:

    wrong        a peer got an element, a blob or a length that does not follow from exactly the participants, or its
                 input has changed
    result       a call ended with a code that no fault explains
    participants they are not distinct, the peer is not among them, or one of them did not make the call by then
    agreement    an operation succeeded with one of its participants and not with another that stayed in the run, or
                 with other participants or other bits
    left out     a member called an operation, failed, and stayed in the run of those with whom it succeeded
    send         a send and its receive ended differently
    state        two contents at one revision, a revision that does not grow, or a member that had the state of all and
                 was given another one
    twice        one peer made an operation twice
"""

import collections
import json

SUCCESS, INTERNAL, USAGE, TOO_FEW, CONNECT, LOST, OPTIMIZE = 0, 2, 4, 5, 6, 8, 12
TIMEOUT, ABORTED, EXPELLED, MASTER_LOST, NO_MEMORY, REFUSED, CHANGED = 13, 14, 17, 18, 19, 21, 22

# Results that a correct program may get; SCARCE only in an episode with a shortage of memory or descriptors.
ALLOWED = {SUCCESS, USAGE, TOO_FEW, LOST, TIMEOUT, ABORTED, EXPELLED, MASTER_LOST, CHANGED}
ALLOWED_OF_CALL = {"connect": ALLOWED | {CONNECT, REFUSED}, "optimize": ALLOWED | {OPTIMIZE}}
SCARCE = {INTERNAL, NO_MEMORY}
PAIRED = ("send", "recv")


class Call:
    """One call of one peer. result: None if the call has not ended or its outcome is unknown."""

    __slots__ = ("process", "number", "name", "key", "peer", "begun", "ended", "result", "words", "more")

    def __init__(self, process, line):
        self.process, self.number, self.name = process, line["n"], line["call"]
        self.key, self.peer, self.begun = line["key"], line["id"], line["t"]
        self.ended = self.result = None
        self.words, self.more = "", {}

    def end(self, line):
        self.ended, self.words = line["t"], line["words"]
        self.more = {name: value for name, value in line.items() if name not in ("n", "e", "t", "rc", "words")}
        if "left" not in line:
            self.result = line["rc"]
        if line.get("joined"):
            self.peer = line["joined"]

    @property
    def who(self):
        return tuple(self.more.get("who", ()))

    def __str__(self):
        end = "no end" if self.ended is None else f"result {self.result} {self.words!r} at {self.ended}"
        return f"{self.process} {self.peer} {self.name} {self.key} at {self.begun}: {end} {self.more}"


class History:
    """The calls of one process, read as they are written."""

    def __init__(self, process, path):
        self.process, self.path = process, path
        self.calls, self.open, self.notes = [], {}, []
        self.rest = b""
        self.at = 0

    def read(self):
        """Reads the lines written since the last call. Returns the new notes."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read()
        except FileNotFoundError:
            return []
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        first = len(self.notes)
        for line in lines:
            self.take(json.loads(line))
        return self.notes[first:]

    def take(self, line):
        if line["e"] == "begin":
            call = Call(self.process, line)
            self.calls.append(call)
            self.open[call.number] = call
        elif line["e"] == "end":
            self.open.pop(line["n"]).end(line)
        else:
            self.notes.append(line)


def _check_results(calls, scarce):
    for call in calls:
        if "wrong" in call.more:
            yield f"wrong: {call.more['wrong']}: {call}"
        allowed = ALLOWED_OF_CALL.get(call.name, ALLOWED) | (SCARCE if scarce else set())
        if call.result is not None and call.result not in allowed:
            yield f"result: {call}"


def _check_participants(call, made):
    who = call.who
    if len(set(who)) != len(who) or not who:
        yield f"participants: not distinct: {call}"
    if call.peer not in who:
        yield f"participants: without the peer itself: {call}"
    for peer in who:
        others = [other for other in made[peer] if other.begun <= call.ended]
        if not others:
            yield f"participants: {peer} has not called it: {call}"


class _Stays:
    """Finds peers that stay in one run after a time, by operations in which they succeed together later."""

    def __init__(self, calls):
        self.later = collections.defaultdict(list)  # of each peer, its successful operations
        for call in calls:
            if call.result == SUCCESS and call.key and call.name not in PAIRED:
                self.later[call.peer].append((call.begun, call.who))
        for successes in self.later.values():
            successes.sort(reverse=True)

    def together(self, peer, others, after):
        for begun, who in self.later[peer]:
            if begun <= after:
                return False
            if not others.isdisjoint(who):
                return True
        return False


def _check_agreement(key, made, stays):
    calls = [call for peer in made.values() for call in peer]
    successes = [call for call in calls if call.result == SUCCESS]
    clusters = collections.defaultdict(list)
    for call in successes:
        yield from _check_participants(call, made)
        clusters[call.who].append(call)
    taken = {}
    for who, cluster in clusters.items():
        digests = {call.more["digest"] for call in cluster}
        if len(digests) > 1:
            yield f"agreement: other bits: {key}: " + " and ".join(map(str, cluster))
        for peer in who:
            if peer in taken:
                yield f"agreement: other participants: {key}: {who} and {taken[peer]}"
            taken[peer] = who
        others = set(who)
        for call in calls:
            if call.result in (SUCCESS, None):
                continue
            if stays.together(call.peer, others - {call.peer}, call.ended):
                kind = "agreement: a failure beside a success" if call.peer in others else "left out"
                yield f"{kind}: {call}; {cluster[0]}"


def _check_sends(key, made, stays):
    """Checks sends and receives, whose participants are the sender and the receiver."""
    calls = [call for peer in made.values() for call in peer]
    ends = collections.defaultdict(list)  # of each pair
    for call in calls:
        if call.result == SUCCESS:
            if len(call.who) != 2 or call.who[call.name == "recv"] != call.peer:
                yield f"participants: {call}"
                continue
            ends[call.who].append(call)
    for (sender, receiver), succeeded in ends.items():
        for name, peer, other in (("send", sender, receiver), ("recv", receiver, sender)):
            if any(call.name == name for call in succeeded):
                continue
            own = [call for call in made[peer] if call.name == name]
            if not own:
                yield f"send: {peer} has not called {name}: {succeeded[0]}"
            elif all(call.result is not None for call in own):
                if any(stays.together(peer, {other}, call.ended) for call in own):
                    yield f"send: only one of {key} has succeeded: {succeeded[0]}; {own[0]}"
        for name in PAIRED:
            if sum(call.name == name for call in succeeded) > 1:
                yield f"send: twice: {succeeded[0]}; {succeeded[1]}"


def _check_states(calls, rivals):
    contents, reached = {}, {}
    for call in sorted((call for call in calls if call.name == "synchronize" and call.result == SUCCESS),
                       key=lambda call: call.ended):
        more = call.more
        content = (more["lineage"], more["revision"])
        other = contents.setdefault(content, call)
        if other.more["digest"] != more["digest"] and not rivals:
            yield f"state: two contents of {content}: {call}; {other}"
        if more["held"] and more["rx"] > 0:
            yield f"state: it was given another one: {call}"
        if reached.get(call.peer, -1) >= more["revision"]:
            yield f"state: the revision does not grow: {call}"
        reached[call.peer] = more["revision"]


def check(histories, scarce=False, rivals=False):
    """Yields the violations as text. scarce: peers lacked memory or descriptors; rivals: two masters ran at once."""
    calls = [call for history in histories for call in history.calls]
    by_key = collections.defaultdict(lambda: collections.defaultdict(list))
    for call in calls:
        if call.key:
            by_key[call.key][call.peer].append(call)
    stays = _Stays(calls)
    yield from _check_results(calls, scarce)
    for key, made in by_key.items():
        if any(call.name in PAIRED for peer in made.values() for call in peer):
            yield from _check_sends(key, made, stays)
            continue
        for peer, again in made.items():
            if len(again) > 1:
                yield f"twice: {peer}: {again[0]}"
        yield from _check_agreement(key, made, stays)
    yield from _check_states(calls, rivals)


def count(histories):
    """Returns {call: [succeeded, failed]} and the longest call."""
    counts, longest = collections.defaultdict(lambda: [0, 0]), None
    for history in histories:
        for call in history.calls:
            if call.result is not None:
                counts[call.name][call.result != SUCCESS] += 1
            if call.ended is not None and (longest is None or call.ended - call.begun > longest.ended - longest.begun):
                longest = call
    return counts, longest
