"""Work that peers do for each other: a peer sends parts to workers and receives their answers, and the chunks of the
work overlap.

Each chunk takes two all-to-alls: one sends the parts to the workers, one returns the answers. The work on a part begins
as soon as it arrives, which is provisional. Answers are sent only after all peers have agreed that all parts have
arrived. While a chunk is worked on, the next one and the answers of the previous one are in transit.

An all-to-all has the same outcome for all, so all agree on the complete chunks. All launch the same operations, even
after a loss: the answers of a chunk if its parts have arrived. No decision depends on data that only some have
received.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, List, Optional, Sequence, Set, Tuple

from .._communicator import Communicator
from .._errors import MembersChangedError, PCCLError, PeerLostError
from .._handles import AsyncBlobsHandle

LOST = PeerLostError, MembersChangedError  # failures that all peers see; the remaining ones start over
TAGS_OF_A_CHUNK = 2
_AHEAD = 2  # limit on chunks in transit to workers; more would only share the bandwidth and arrive later


class Job:
    """The work, and the peers that request it. Peers are given by their index among the members."""

    def parts(self, chunk: int) -> List[Any]:
        """Returns the part for each member. The part for this peer itself is empty."""
        raise NotImplementedError

    def work(self, chunk: int, peer: int, part: memoryview) -> Any:
        """Returns the answer to a member's part. The part has arrived, but the answer may still be discarded."""
        raise NotImplementedError

    def work_alone(self, chunk: int) -> None:
        """Works on this peer's own part."""
        raise NotImplementedError

    def take(self, chunk: int, peer: int, answer: memoryview) -> None:
        """Receives a member's final answer."""
        raise NotImplementedError


@dataclass
class Traffic:
    tx_bytes: int = 0
    rx_bytes: int = 0
    waited_s: float = 0.0


class Exchange:
    """An attempt to process some chunks among some members."""

    def __init__(
        self,
        comm: Communicator,
        members: Sequence[str],
        tag: int,
        label: str,
        job: Job,
        traffic: Traffic,
        max_bytes: int,
    ) -> None:
        """max_bytes: limit on the bytes that one member receives in an operation; the same on all members."""
        self._max_bytes = max_bytes
        self._comm, self._members, self._tag, self._label = comm, tuple(members), tag, label
        self._job, self._traffic = job, traffic
        self._own = comm.id
        self._queue: List[int] = []
        self._parts: Dict[int, Optional[AsyncBlobsHandle]] = {}
        self._answers: Dict[int, Optional[AsyncBlobsHandle]] = {}
        self._made: Dict[int, List[Any]] = {}
        self._alone: Deque[int] = deque()
        self._worked_s = 0.0
        self._stopped = False

    def run(self, chunks: Sequence[int]) -> Set[int]:
        """Returns the chunks that have failed, which are the same on all members."""
        self._queue = list(chunks)
        self._alone = deque(chunks)
        try:
            self._launch_parts(_AHEAD)
            for place, chunk in enumerate(self._queue):
                have_come = self._await(self._parts[chunk]) is not None
                self._launch_parts(place + 1 + _AHEAD)  # even if no part has arrived here
                self._answers[chunk] = self._launch(chunk, 1, self._made[chunk]) if have_come else None
            failed = {chunk for chunk in self._queue if not self._finish(chunk)}
            while self._alone:
                self._job.work_alone(self._alone.popleft())
            return failed
        except BaseException:
            self._stop()
            raise

    def _launch_parts(self, count: int) -> None:
        for chunk in self._queue[len(self._parts) : count]:
            self._made[chunk] = [b""] * len(self._members)
            self._parts[chunk] = self._launch(chunk, 0, self._job.parts(chunk), self._arrived(chunk))

    def _launch(self, chunk: int, way: int, parts: List[Any], arrived: Any = None) -> Optional[AsyncBlobsHandle]:
        try:
            return self._comm.all_to_all_v_async(
                parts,
                tag=self._tag + TAGS_OF_A_CHUNK * chunk + way,
                members=self._members,
                alone_ok=True,
                max_bytes=self._max_bytes,
                on_arrival=arrived,
                label=f"{self._label} {chunk}" + (" back" if way else ""),
            )
        except LOST:
            return None

    def _arrived(self, chunk: int) -> Any:
        place = self._queue.index(chunk)

        def arrived(peer: str, part: memoryview) -> None:
            if self._stopped or peer == self._own:
                return
            self._launch_parts(place + 1 + _AHEAD)
            begin = time.monotonic()
            number = self._members.index(peer)
            self._made[chunk][number] = self._job.work(chunk, number, part)
            self._worked_s += time.monotonic() - begin

        return arrived

    def _await(self, handle: Optional[AsyncBlobsHandle]) -> Optional[List[Tuple[str, memoryview]]]:
        """Returns the received parts, or None if the operation has failed. Works on this peer's own parts during the
        wait."""
        if handle is None:
            return None
        while self._alone and not handle.test():
            self._job.work_alone(self._alone.popleft())
        begin, worked = time.monotonic(), self._worked_s
        try:
            brought = handle.result()
        except LOST:
            return None
        finally:
            self._traffic.waited_s += time.monotonic() - begin - (self._worked_s - worked)
        outcome = handle._operation.outcome
        assert outcome is not None
        self._traffic.tx_bytes += outcome.info.tx_bytes
        self._traffic.rx_bytes += outcome.info.rx_bytes
        return brought

    def _finish(self, chunk: int) -> bool:
        answers = self._await(self._answers[chunk])
        if answers is None:
            return False
        for number, (peer, answer) in enumerate(answers):
            if peer != self._own:
                self._job.take(chunk, number, answer)
        return True

    def _stop(self) -> None:
        """Ends the operations in progress on all peers, after an exception. The others' next operations wait until this
        peer leaves."""
        self._stopped = True
        try:
            self._comm.abort()
        except PCCLError:
            pass  # the communicator has ended, and all operations with it
        for handle in (*self._parts.values(), *self._answers.values()):
            if handle is not None:
                handle.wait()
