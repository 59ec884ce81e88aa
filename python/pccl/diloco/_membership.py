"""Membership in a run, and the transfer of the run's state to newcomers.

After connect() and after each topology update, all peers of the group compare their states here. The state of the
established peers that have made the most steps takes precedence; these peers only send, and the others only receive.
Newcomers can therefore never outvote the run, however many there are. If no peer is established and all are at the same
step, they start a run with the most common content.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import time
import zlib
from array import array
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Callable, NamedTuple, Optional, Protocol, Sequence

from .. import _threads
from .._communicator import Communicator
from .._enums import Attribute, ReduceOp, SharedStateSyncStrategy
from .._errors import (
    DrainedError, InternalError, InvalidArgument, InvalidUsage, StateMismatch, TooFewPeersError, raise_if,
)
from .._exchange import exchange_json
from .._lazy import Lazy
from .._state import SharedState
from ._inside import Inside
from ._reduction import EXACT, FIRST_TAG, HALF, Packing, codec_words, small

_grid: Any = Lazy("pccl.torch._grid")
_log = logging.getLogger("pccl.diloco")

PAUSE_S = 0.1  # pause while peers are missing or late
# Time after which a wait is logged (the default of `where_ms`). It is logged again after five times this time.
_LOG_AFTER_S = 2.0
_COMPARE_TAG, _SETTINGS_TAG, _ANY_TAG, _LINES_TAG = FIRST_TAG + 1, FIRST_TAG + 2, FIRST_TAG + 3, FIRST_TAG + 4
GATHER_TAG, _WHOLE_TAG = FIRST_TAG + 6, FIRST_TAG + 7
_LINE_MAX = 160  # number of characters of a line that are sent to others


@dataclass
class Meeting:
    """Result of a meeting with the other peers."""

    participants: int
    newcomers: bool = False  # true if peers other than this one are newcomers
    moved_bytes: int = 0  # number of bytes received by this peer
    roster: Sequence[str] = ()  # ids of all peers, if newcomers get the fragments later
    kept: Any = None  # previous state of a newcomer, if it gets the fragments later


class Content(Protocol):
    """The state that all peers of a run share, and its progress."""

    @property
    def round(self) -> int: ...
    @property
    def position(self) -> int: ...
    def state(self, revision: int) -> SharedState: ...
    @property
    def keep(self) -> Callable[..., Any]: ...
    def restore(self, kept: Any) -> None: ...


class Counters(Protocol):
    counters: Any


class Setting(NamedTuple):
    """A setting that must be the same on all peers of a run, encoded as a number."""

    name: str
    number: int
    words: Callable[[int], str]
    lines: Sequence[str] = ()  # the text whose digest is `number`; names the first difference in errors


def number(name: str, value: int) -> Setting:
    return Setting(name, value, str)


def fraction(name: str, value: float) -> Setting:
    def words(bits: int) -> str:
        return str(struct.unpack("<d", struct.pack("<q", bits))[0])

    # Adding 0.0 turns -0.0 into 0.0
    return Setting(name, struct.unpack("<q", struct.pack("<d", value + 0.0))[0], words)


def choice(name: str, value: Any, choices: Sequence[Any]) -> Setting:
    return Setting(name, choices.index(value), lambda index: repr(choices[index]))


def listing(name: str, lines: Sequence[str]) -> Setting:
    digest = hashlib.sha256("\n".join(lines).encode()).digest()
    return mark(name, int.from_bytes(digest[:7], "big"), lines)


def codecs(packings: Sequence[Packing], is_default: bool) -> Setting:
    """Returns the setting for the deltas' codecs. is_default: no codec was named, which the text mentions. The same
    codec given by name has an equal setting."""
    lines = [repr(EXACT) if packing is None else codec_words(packing) for packing in packings]
    setting = listing("codec", lines)
    if is_default and HALF in packings:
        hint = " (the default of a 16-bit model); name a codec on all peers"
        setting = mark("codec", setting.number, [line + hint for line in lines])
    return setting


def limit(name: str, value: Optional[int]) -> Setting:
    return Setting(name, value or 0, lambda limit: str(limit or None))


def mark(name: str, value: int, lines: Sequence[str]) -> Setting:
    return Setting(name, value, lambda _: "others", lines)


def setting(name: str, value: Any) -> Setting:
    """Returns the setting for a number, a string, True, False, None, or a tuple or list of these. Returns a Setting
    unchanged. All these settings have lines, so that peers whose values have different types still make the same calls.
    """
    if isinstance(value, Setting):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a scalar of numpy or torch
    if not _has_equal_words(value):
        raise InvalidArgument(
            f"settings: {name} is {value!r}; expected a number, a string, True, False, None, or a tuple of these"
        )
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    canonical = repr(float(value)) if is_number and abs(value) < 1 << 53 else repr(value)  # 1 and 1.0 are equal
    return listing(name, [canonical])._replace(lines=[repr(value)])


def _has_equal_words(value: Any) -> bool:
    """Returns true if repr() is the same in all processes for equal values."""
    if isinstance(value, (tuple, list)):
        return all(map(_has_equal_words, value))
    return value is None or type(value) in (bool, int, float, str)


def _cut(lines: Sequence[str]) -> list[str]:
    """Truncates each line to the length that is sent to others."""
    return [line[:_LINE_MAX].rstrip() for line in lines]


def _first_difference(own: Sequence[str], lists: Sequence[Sequence[str]]) -> Optional[tuple[str, str]]:
    """Returns the first line that differs between `own` and any of the lists, from both. Returns None if the parts that
    were sent do not differ."""
    for other in lists:
        for mine, run in zip_longest(own, other, fillvalue="nothing"):
            if mine != run:
                return mine, run
    return None


class Membership:
    """A peer's membership in a run."""

    entry_call = "join()"

    def __init__(
        self,
        comm: Communicator,
        kind: str,
        shared: Content,
        min_peers: int,
        rounds: Optional[int],
        settings: Sequence[Setting],
        inside: Optional[Inside] = None,
    ) -> None:
        """kind: kind of the run; runs of the same kind have the same settings. inside: the processes that join and
        leave with this one, each of which constructs this object."""
        self.comm = comm
        self._inside = inside or Inside()
        self._name = self._inside.name()
        self.established = False
        self._shared = shared
        self._min_peers = min_peers
        self._rounds = rounds
        # The number of values is the same for each kind, so that peers of different kinds can compare them.
        room = _SETTINGS_MAX - 1 - len(settings)
        if room < 0:
            raise InvalidArgument(
                f"settings: {len(settings)} are too many to compare: expected at most "
                f"{_SETTINGS_MAX - 1}"
            )
        method = listing("method", [kind, *(f"the setting {setting.name}" for setting in settings)])
        self._settings = [method, *settings, *[number("", 0)] * room]
        # Called on all peers if some are behind. Arguments: whether this peer's state counts, and the lowest round.
        self.catch_up: Callable[[bool, int], None] = lambda counts, lowest: None
        # Counters that newcomers get immediately, before the fragments. None: they get everything at once.
        self.counters: Optional[Counters] = None
        self.lacks_state = False  # true if this peer has only a part of the state
        self._revision = 0  # revision of the next synchronization
        self._asked: Optional[_threads.Job[bool]] = None

    @property
    def number(self) -> int:
        """Returns the trainer's name as a 32-bit number."""
        return int(self._name[:8], 16)

    def world(self) -> int:
        return self.comm.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE)

    def enter(self, comm: Communicator) -> None:
        """Enters the run as a newcomer. Connects if necessary."""
        self.comm, self.established, self._revision = comm, False, 0
        try:
            comm.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE)
        except InvalidUsage:
            if comm.closed:
                raise
            self._inside.connect(comm, 5, lambda: self._fill(comm.update_topology))
        else:
            if self._inside.size > 1:
                raise InvalidUsage(
                    "the communicator is already connected: with several processes, join() connects each of them in "
                    "turn"
                )

    def meet(self, *room: Any) -> Meeting:
        """Meets all peers after an update of the topology, including newcomers. All of them must call it. room: memory
        for a copy of the state while this peer receives."""
        log_at = time.monotonic() + _LOG_AFTER_S
        while True:
            try:
                meeting = self._meet_alone() if self.world() == 1 else self._meet_others(room)
            except TooFewPeersError:
                continue  # the others have left
            if meeting is not None:
                return meeting
            if time.monotonic() >= log_at:
                self._log_wait()
                log_at = time.monotonic() + 5 * _LOG_AFTER_S
            time.sleep(PAUSE_S)
            self.update()

    def update(self) -> None:
        """Admits newcomers. All peers must call it. Raises DrainedError if a process of this trainer was drained."""
        self._update_together()
        if self._inside.size > 1:
            self._fill(self._update_together)

    def _update_together(self) -> None:
        """Updates the topology. If a process of this trainer is drained, the trainer's other processes leave with the
        next update, which all trainers make, because the groups then contain processes of different trainers."""
        drained: Optional[DrainedError] = None
        try:
            self.comm.update_topology()
        except DrainedError as error:
            drained = error
        is_over = bool(self._inside.highest(drained is not None)[0])
        if drained is None and is_over:
            self.comm.drain()
            self._is_whole(False)
            self.comm.update_topology()
            raise InternalError("a process of this trainer was drained, but this one, which had requested it, was not")
        raise_if(drained)

    def _fill(self, update: Callable[[], None]) -> None:
        """Updates the topology until all processes of all trainers have joined. The processes of a new trainer join one
        by one, and cannot reach each other before all have joined, so the established peers inform them."""
        while not self._is_whole(True):
            time.sleep(PAUSE_S)
            update()

    def _is_whole(self, has_siblings: bool) -> bool:
        """Returns true if all peer groups have processes of the same trainers. Comparing their sizes is not enough: one
        trainer's first process may just have joined while another trainer's failed. has_siblings: false if a process of
        this trainer was drained."""
        told = exchange_json(self.comm, [self._name, self.established], tag=GATHER_TAG)
        if not any(was_in for _, was_in in told.values()):
            return bool(_grid.grid_is_full(self.comm, self._inside.size))  # a run begins
        differ = array("q", [not has_siblings])
        if self.established and has_siblings:
            names = "\n".join(sorted(name for name, _ in told.values()))
            differ[0] = not self._inside.agree(zlib.crc32(names.encode()))
        try:
            self._highest(differ, _WHOLE_TAG)
        except TooFewPeersError:  # the others have left
            return self.established and not differ[0]
        return not differ[0]

    def _counted(self, count: int) -> int:
        """Returns the smallest of the peer counts of this trainer's processes."""
        return -self._inside.highest(-count)[0]

    def _log_wait(self) -> None:
        _log.warning(
            "waiting for min_peers=%d: %d have joined; each of the others joins with %s; "
            "or pass a smaller min_peers",
            self._min_peers,
            self.world(),
            self.entry_call,
        )

    def _enough(self, count: int, round: int) -> bool:
        """Returns true if there are enough peers, or if the run has ended and needs no others."""
        return count >= self._min_peers or (self._rounds is not None and round >= self._rounds)

    def _meet_alone(self) -> Optional[Meeting]:
        """Starts a run or continues one without other peers. Raises StateMismatch if the state was lost with the other
        peers."""
        self._check_that_state_exists(self.established)
        if not self._enough(self._counted(1), self._shared.round):
            return None
        if not self.established:
            self._synchronize(SharedStateSyncStrategy.ENFORCE_POPULAR)
        return Meeting(1)

    def _meet_others(self, room: Sequence[Any]) -> Optional[Meeting]:
        count, highest, lowest, newcomers = self._compare()
        self._check_that_state_exists(highest >= ESTABLISHED)
        count = self._counted(count)
        if not self._enough(count, _round_of(highest)):
            return None
        own = self._key()
        meeting = Meeting(count, newcomers=newcomers if self.established else False)
        if highest == lowest and self.established:
            return meeting  # the newcomers have left
        if self.established and own < highest:
            raise StateMismatch(
                f"this peer is at round {self._shared.round}, but others of the run are at {_round_of(highest)}: "
                "they continued without it"
            )
        strategy = self._strategy(own, highest, lowest)
        counters = self._counters_to_send_first(highest)
        kept = None if strategy is SharedStateSyncStrategy.SEND_ONLY else self._shared.keep(*room)
        try:
            if highest != lowest:
                self.catch_up(own == highest, _round_of(lowest))
            if counters is not None:
                return self._exchange_counters(meeting, counters, kept)
            if kept is None:
                self._synchronize(strategy)
                return meeting
            meeting.moved_bytes = self._synchronize(strategy)
        except BaseException:
            if kept is not None:
                self._shared.restore(kept)
            raise
        return meeting

    def _counters_to_send_first(self, highest: int) -> Optional[Counters]:
        """Returns the counters that newcomers get first. Returns None at the start of a run and after its end."""
        goes_on = self._rounds is None or _round_of(highest) < self._rounds
        return self.counters if highest >= ESTABLISHED and goes_on else None

    def _exchange_counters(self, meeting: Meeting, counters: Counters, kept: Any) -> Optional[Meeting]:
        """Sends the counters to newcomers. All peers must call it. Returns None if all their holders have left."""
        told = exchange_json(self.comm, [self.established, self._revision, counters.counters], tag=GATHER_TAG)
        known = [(revision, values) for is_in, revision, values in told.values() if is_in]
        if not known:
            return None
        self._revision, counters.counters = known[0]
        meeting.roster, meeting.kept = sorted(told), kept
        return meeting

    def _check_that_state_exists(self, has: bool) -> None:
        if self.lacks_state and not has:
            raise state_is_lost()

    def _strategy(self, own: int, highest: int, lowest: int) -> SharedStateSyncStrategy:
        """Returns this peer's strategy for the synchronization. All peers must call it."""
        if highest == lowest:
            return self._initial_strategy()
        return SharedStateSyncStrategy.SEND_ONLY if own == highest else SharedStateSyncStrategy.RECEIVE_ONLY

    def _initial_strategy(self) -> SharedStateSyncStrategy:
        """Returns the strategy at the start of a run. All peers must call it. With several processes per trainer, the
        most common contents of two groups may be from different trainers, so all shards are taken from one trainer."""
        if self._inside.size == 1:
            return SharedStateSyncStrategy.ENFORCE_POPULAR
        return self._strategy_of_one_source(True)

    def _strategy_of_one_source(self, counts: bool) -> SharedStateSyncStrategy:
        """Selects a trainer whose state all others receive, among those that count. All peers must call it."""
        number = int(self._name[:15], 16) if counts else -1
        highest = array("q", [number])
        try:
            self._highest(highest, _ANY_TAG)
        except TooFewPeersError:
            pass  # the others have left
        gives = counts and number == highest[0]
        return SharedStateSyncStrategy.SEND_ONLY if gives else SharedStateSyncStrategy.RECEIVE_ONLY

    def verify(self) -> int:
        """Checks that all peers have the same state, and replaces differing states with the most common one. All peers
        must call it, with no reduction in flight. Returns the number of bytes that this peer received."""
        moved = self._synchronize(SharedStateSyncStrategy.ENFORCE_POPULAR)
        if moved > 0:
            _log.warning(
                "round %d: this peer's state differed from the others'; fetched %d bytes from them",
                self._shared.round,
                moved,
            )
        return moved

    def _synchronize(self, strategy: SharedStateSyncStrategy) -> int:
        state = self._shared.state(self._revision)
        info = self.comm.sync_shared_state(state, strategy)
        self.established, self._revision = True, state.revision + 1
        return info.rx_bytes

    def any(self, wants: bool) -> bool:
        """Returns true if `wants` is true on any peer. All peers must call it."""
        values = array("q", [wants])
        try:
            if self.world() > 1:
                self._highest(values, _ANY_TAG)
        except TooFewPeersError:
            pass  # the others have left
        return bool(self._inside.highest(values[0])[0])

    # ---- pending newcomers

    def ask(self) -> None:
        """Starts a query for pending newcomers. All peers must call it, at a boundary. The answer is the same for all,
        and arrives during the reductions, so it costs no extra round trips."""
        if self._asked is None:
            self._asked = _threads.start(self.comm.are_peers_pending)

    def wait_for_answer(self) -> None:
        if self._asked is not None:
            self._asked.wait()

    def answer(self) -> bool:
        """Returns the answer to the query, which it starts if necessary."""
        self.ask()
        self.wait_for_answer()
        asked, self._asked = self._asked, None
        assert asked is not None
        return asked.value()

    def leave(self) -> None:
        """Ends the membership. Call it after closing the communicator."""
        self.wait_for_answer()
        self._asked, self.established = None, False

    # ---- comparison

    def _key(self) -> int:
        """Returns this peer's progress as a number. Established peers rank above all others."""
        progress = self._shared.round << _POSITION_BITS | self._shared.position
        return (ESTABLISHED if self.established else 0) | progress

    def _highest(self, values: array[int], tag: int) -> int:
        """Computes the maximum of each value over all peers, in place. Returns the number of peers."""
        info = self.comm.all_reduce_multiple_with_retry([small(values, ReduceOp.MAX, tag).descriptor()])
        return info.local_world_size

    def _compare(self) -> tuple[int, int, int, bool]:
        """Compares the peers' progress and settings. Returns the number of peers, the highest and the lowest key, and
        whether there are newcomers. Raises InvalidArgument if the settings differ from the run's."""
        own, settings = self._key(), [setting.number for setting in self._settings]
        values = array("q", [own, -own, not self.established, *settings, *(-value for value in settings)])
        count = self._highest(values, _COMPARE_TAG)
        highest, lowest, newcomers = values[0], -values[1], bool(values[2])
        most, least = values[3 : 3 + len(settings)], [-value for value in values[3 + len(settings) :]]
        if list(most) != list(least):
            odd = [setting.name for setting, one, other in zip(self._settings, most, least) if one != other]
            self._compare_settings(own == highest, odd)
        return count, highest, lowest, newcomers

    def _lines_of_the_run(self, setting: Setting, number: int, counts: bool) -> Sequence[str]:
        """Returns the lines for this number of the setting, from peers whose state counts. All peers must call it."""
        lines = _cut(setting.lines) if counts and setting.number == number else []
        length = array("q", [len(lines)])
        self._highest(length, _LINES_TAG)
        text = "".join(line.ljust(_LINE_MAX) for line in lines)
        characters = array("q", map(ord, text.ljust(length[0] * _LINE_MAX, "\0")))
        if length[0] > 0:
            self._highest(characters, _LINES_TAG)
        text = "".join(map(chr, characters))
        return [text[at : at + _LINE_MAX].rstrip() for at in range(0, len(text), _LINE_MAX)]

    def _compare_settings(self, counts: bool, odd: Sequence[str]) -> None:
        """Raises InvalidArgument if this peer's settings differ from the settings of the peers whose state counts. All
        peers must call it, because all have found a difference."""
        own = [setting.number for setting in self._settings]
        values = array("q", [NO_VALUE] * (2 * len(own)))
        if counts:
            values = array("q", [*own, *(-value for value in own)])
        self._highest(values, _SETTINGS_TAG)
        theirs, also = list(values[: len(own)]), [-value for value in values[len(own) :]]
        if self._settings[0].name in odd:
            odd = [self._settings[0].name]  # in a run of another kind, the other settings mean something else
        lists = {
            setting.name: [self._lines_of_the_run(setting, number, counts) for number in dict.fromkeys((one, other))]
            for setting, one, other in zip(self._settings, theirs, also)
            if setting.lines and setting.name in odd
        }
        for setting, one, other in zip(self._settings, theirs, also):
            if one != other or setting.number != one:
                mine, run = setting.words(setting.number), setting.words(one if setting.number != one else other)
                mine, run = _first_difference(_cut(setting.lines), lists.get(setting.name, ())) or (mine, run)
                raise InvalidArgument(f"{setting.name}: this peer has {mine}, the run has {run}")


def state_is_lost() -> StateMismatch:
    return StateMismatch("all peers with the run's state left before this newcomer had fetched it: the run is lost")


def _round_of(key: int) -> int:
    return (key & ~ESTABLISHED) >> _POSITION_BITS


ESTABLISHED = 1 << 62
_POSITION_BITS = 31
NO_VALUE = -(1 << 63) + 1  # less than any setting and its negative
_SETTINGS_MAX = 24
