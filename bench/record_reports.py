#!/usr/bin/env python3
"""Records the reports that peers send to the master, in groups of real processes on separate emulated hosts (tests/wan;
needs root), with one fault or none. unit/verdicts_recorded replays the recordings in tests/unit/recordings.

    bench/record_reports.py [--only REGEX] [--peers 4] [--out build/recordings] [--build build/default]

A recording has a first line with its facts, then for each report a line `r`, one `l` for each link, and one `o` for
each operation:

    r PEER AT_MS WINDOW_MS STALLED_MS OPERATIONS TOOK_MS
    l TO KIB RESENT_KIB BUSY_TENTHS_OF_MS RTT_US LATELY_US
    o NUMBER TOOK_MS
"""

import argparse
import json
import os
import pathlib
import re
import sys

import verdicts as bench
from verdicts import faults, harness

SOUND_S, FAULT_S = 12, 16
ROUNDS_BEFORE, ROUNDS_AFTER = 5, 9
COMPUTE_MS, LATE_MS = 1000, 1000


class Reports:
    """Collects the reports from the logs of peers."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.fault_ms = None
        self.began_us = harness.now_us()
        self.operations = {}

    def now_ms(self):
        return (harness.now_us() - self.began_us) // 1000

    def number(self, short):
        return next(place for place, peer in enumerate(self.hosts.ids) if peer.startswith(short))

    def of_peer(self, place):
        """Returns the reports of a peer as lists of lines, with their times."""
        found = []
        for _, text in self.hosts.peers[place].lines:
            if '"subsystem":"report"' not in text:
                continue
            line = json.loads(text)
            at_ms = (line["at"] - self.began_us) // 1000
            values = dict(one.split("=") for one in line["text"].split())
            if "window_ms" in values:
                took_ms = int(values["took_us"]) // 1000
                words = (place, at_ms, values["window_ms"], values["stalled_ms"], values["operations"], took_ms)
                found.append((at_ms, ["r " + " ".join(map(str, words))]))
            elif "link" in values:
                number = {key: int(value) for key, value in values.items() if key != "link"}
                words = (self.number(values["link"]), number["bytes"] >> 10, number["resent"] >> 10)
                words += (number["busy_us"] // 100, number["rtt_us"], number["lately_us"])
                if number["bytes"] >= 1024:
                    found[-1][1].append("l " + " ".join(map(str, words)))
            else:
                number = self.operations.setdefault(values["round"], len(self.operations))
                found[-1][1].append(f"o {number} {int(values['took_us']) // 1000}")
        return found

    def write(self, path, facts):
        reports = sorted(one for place in range(len(self.hosts.peers)) for one in self.of_peer(place) if one[0] >= 0)
        facts = f"# peers={len(self.hosts.peers)} fault_ms={self.fault_ms or 0} {facts}"
        path.write_text("\n".join([facts] + [line for _, lines in reports for line in lines]) + "\n", encoding="ascii")
        print(f"{path}: {len(reports)} reports, {path.stat().st_size} bytes", flush=True)


def back_to_back(fault):
    def make(hosts, reports):
        hosts.loops = [peer.start("loop", bit, 1, faults.ELEMENTS, 1) for bit, peer in enumerate(hosts.peers)]
        harness.wait_ms(SOUND_S * 1000)
        reports.fault_ms = reports.now_ms()
        fault(hosts)
        harness.wait_ms(FAULT_S * 1000)

    return make


def along_a_ring(fault):
    """Large operations along a ring. The ring leaves the links of the fault, one after another."""

    def make(hosts, reports):
        hosts.set_rates(faults.FAST, range(len(hosts.peers)), range(len(hosts.peers)))
        hosts.loops = [peer.start("loop", bit, 1, faults.RING_ELEMENTS, 1) for bit, peer in enumerate(hosts.peers)]
        harness.wait_ms(SOUND_S * 1000)
        reports.fault_ms = reports.now_ms()
        fault(hosts)
        harness.wait_ms(2 * FAULT_S * 1000)

    return make


def reduce_both(hosts, late, late_ms):
    """Runs a small and a large operation, one after another. One peer enters the first one late."""
    others = [place for place in range(len(hosts.peers)) if place != late]
    calls = faults.reduce(hosts, others, 1, 16)
    if late is not None:
        harness.wait_ms(late_ms)
        calls += faults.reduce(hosts, [late], 1, 16)
    faults.agree(calls, faults.SUCCESS)
    faults.agree(faults.reduce(hosts, range(len(hosts.peers)), 2, faults.LARGE // 2), faults.SUCCESS)


def in_rounds(fault, late=None):
    """Rounds as of DiLoCo: a time without operations, then a small and a large one."""

    def make(hosts, reports):
        for turn in range(ROUNDS_BEFORE + ROUNDS_AFTER):
            if turn == ROUNDS_BEFORE:
                reports.fault_ms = reports.now_ms()
                fault(hosts)
            harness.wait_ms(COMPUTE_MS)
            reduce_both(hosts, late if turn >= ROUNDS_BEFORE else None, LATE_MS)

    return make


def link_slower(hosts):
    faults.narrow_link(hosts, faults.RATE / 3)


def way_out_slower(hosts):
    faults.narrow_way_out(hosts, faults.RATE / 2)


def ring_way_out_slower(hosts):
    faults.narrow_way_out(hosts, faults.FAST / 3)


def nothing(_hosts):
    pass


SCENARIOS = {
    "loop-sound": (back_to_back(nothing), "right=none"),
    "loop-link": (back_to_back(link_slower), "right=link from=0 to=1"),
    "loop-out": (back_to_back(way_out_slower), "right=sender from=0"),
    "ring-sound": (along_a_ring(nothing), "right=none"),
    "ring-out": (along_a_ring(ring_way_out_slower), "right=sender from=0"),
    "rounds-sound": (in_rounds(nothing), "right=none"),
    "rounds-link": (in_rounds(link_slower), "right=link from=0 to=1"),
    "rounds-out": (in_rounds(way_out_slower), "right=sender from=0"),
    "rounds-late": (in_rounds(nothing, late=0), "right=late from=0"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--peers", type=int, default=faults.COUNT)
    parser.add_argument("--out", type=pathlib.Path, default=bench.ROOT / "build" / "recordings")
    parser.add_argument("--build", type=pathlib.Path, default=bench.ROOT / "build" / "default")
    parser.set_defaults(carried=None)
    arguments = parser.parse_args()
    os.environ.update(bench.environment_of(arguments))
    bench.need_namespaces(os.environ)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, (make, facts) in SCENARIOS.items():
        if not arguments.only.search(name):
            continue
        with harness.Run(f"record-{name}") as run:
            run.environment["PCCL_LOG_LEVEL"] = "TRACE"
            hosts = bench.Hosts(run, arguments.peers)
            reports = Reports(hosts)
            make(hosts, reports)
            reports.write(arguments.out / f"{name}-{arguments.peers}.txt", facts)


if __name__ == "__main__":
    sys.exit(main())
