"""Reports of pcclGetTopology, and optimizations of runs."""

from harness import SUCCESS
from harness import check, equal

SOURCES = ("tested", "traffic", "unreachable")


class Picture:
    """The text of pcclGetTopology, parsed strictly. Peers have their names; a path is a pair of names."""

    def __init__(self, text):
        self.lines = [line for line in text.split("\n") if line and not line.startswith("#")]
        self.at = 0
        equal(self._line(), "pccl topology 1", "the first line")
        self.group = int(self._line("group"))
        count = int(self._line("peers"))
        self.ids, self.addresses, self.names = [], [], []
        for number in range(count):
            words = self._line(f"peer {number}").split(" ", 2)
            self.ids.append(words[0])
            self.addresses.append(words[1])
            self.names.append(words[2] if len(words) > 2 else "")
            check(len(words[0]) == 32 and int(words[0], 16) > 0, f"id of {words}")
        self.order = [int(word) for word in self._line("ring").split()]
        equal(sorted(self.order), list(range(count)), "the ring")
        seed = self._line("search").split()
        check(seed[0] == "seed" and seed[2] == "steps" and len(seed) == 4, f"search {seed}")
        self.steps = int(seed[3])
        self.ways = {}
        while self.lines[self.at] != "end":
            self._way(self._line("way").split(), count)
        equal(self.at, len(self.lines) - 1, "lines behind the end")

    def _line(self, begin=None):
        line = self.lines[self.at]
        self.at += 1
        if begin is None:
            return line
        check(line.startswith(begin + " "), f"'{line}', want {begin}")
        return line[len(begin) + 1 :]

    def _way(self, words, count):
        a, b = int(words[0]), int(words[1])
        check(a != b and a < count and b < count, f"way {words}")
        is_reversed = words[-1] == "reversed"
        words = words[:-1] if is_reversed else words
        way = {"source": words[-1] if words[2] == "rate" else words[2], "rate": 0, "rtt": 0, "reversed": is_reversed}
        check(way["source"] in SOURCES, f"source of {words}")
        if way["source"] != "unreachable":
            equal((words[2], words[4], words[6]), ("rate", "rtt", "age"), f"way {words}")
            way.update(rate=int(words[3]), rtt=int(words[5]), age=int(words[7]))
            check(way["rate"] > 0, f"rate of {words}")
        else:
            equal(words[3], "age", f"way {words}")
            way.update(age=int(words[4]))
        key = (self.names[a], self.names[b])
        check(key not in self.ways, f"twice: {words}")
        self.ways[key] = way

    def ring(self):
        return [self.names[number] for number in self.order]

    def ring_ways(self):
        names = self.ring()
        return list(zip(names, names[1:] + names[:1]))

    def slowest(self):
        """Returns the bytes per second of the ring's slowest path; 0 if one is unknown."""
        return min(self.ways.get(way, {"rate": 0})["rate"] for way in self.ring_ways())


def start(run, count, group=0, **master):
    """Starts members with names, which soon report the peers for which they wait."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**master)
    return join(run, count, [], group)


def join(run, count, members, group=0):
    joined = []
    for _ in range(count):
        peer = run.peer()
        peer.create(run.address, group, name=peer.name)
        run.admit(peer, members + joined)
        joined.append(peer)
    return joined


def picture(peer):
    return Picture(peer.do("topology")["text"])


def optimize(peers, seconds=None, rc=SUCCESS):
    """Returns the milliseconds from the last vote to the end of all calls."""
    calls = [peer.start("optimize") for peer in peers]
    results = [call.wait(seconds, rc=rc) for call in calls]
    return min(result["us"] for result in results) / 1000


def reduce(peers, tag, count=60):
    """Checks that a sum has the same correct result everywhere; returns its digest."""
    calls = [peer.start("reduce", tag, count, "i64", "sum", "const:3", "dump") for peer in peers]
    results = [call.wait(rc=SUCCESS) for call in calls]
    want = (3 * len(peers)).to_bytes(8, "little").hex() * count
    for peer, result in zip(peers, results):
        equal(result["peers"], len(peers), f"peers of the sum on {peer.name}")
        check(result["result"] == want, f"a wrong sum on {peer.name}")
    return results[0]["digest"]


def random_sums(peers, tag, count=4000):
    """Sums floats, so that the result depends on the ring; returns the digest, which is equal everywhere."""
    calls = [peer.start("reduce", tag, count, "f32", "sum", f"rand:{seed}") for seed, peer in enumerate(peers)]
    digests = {call.wait(rc=SUCCESS)["digest"] for call in calls}
    equal(len(digests), 1, "different bits")
    return digests.pop()


def nobody_went(run):
    lines = [text for _, text in run.master.lines if "departs" in text or "removed" in text.replace(" 0 removed", "")]
    check(not lines, f"somebody went: {lines}")


def updated(peers, world=None):
    for call in [peer.start("update") for peer in peers]:
        equal(call.wait(rc=SUCCESS)["world"], world or len(peers), "world")
