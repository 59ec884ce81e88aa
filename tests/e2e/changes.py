"""A client of /status.json?since=REVISION, and runs of any size that are invented (invented.c)."""

import copy
import json
import subprocess

import harness

AGES = ("last_word_ms", "told_ms", "since_ms")
LISTS = ("gone", "links", "link_blocks", "groups", "verdicts", "calls")


def column(runs):
    """Yields (number, value) of a column: first,[value,...] or first,count,value, and so on."""
    at = 0
    while at < len(runs):
        first, what = runs[at], runs[at + 1]
        at += 2
        if not isinstance(what, list):
            what, at = [runs[at]] * what, at + 1
        yield from enumerate(what, first)


class Client:
    """The state of a run, kept up to date with answers about changes."""

    def __init__(self):
        self.revision = "0"
        self.head = {}
        self.lists = {}
        self.peers = {}  # by number

    def _age(self, passed_ms):
        for item in [*self.peers.values(), *(item for items in self.lists.values() for item in items)]:
            for age in AGES:
                if age in item:
                    item[age] += passed_ms

    def apply(self, answer):
        if answer["since"] == "0":
            self.__init__()
        before_ms = self.head.get("uptime_ms", 0)
        self.head.update(answer["head"])
        self._age(self.head["uptime_ms"] - before_ms)
        for name in LISTS:
            items = self.lists.setdefault(name, [])
            if name in answer:
                count = answer[name]["count"]
                items[:] = [*items[:count], *[None] * (count - len(items))]
                for index, item in answer[name]["set"]:
                    items[index] = item
        new = answer["peers"]
        present = [first + i for first, count in zip(*[iter(new["present"])] * 2) for i in range(count)]
        whole = dict(new["whole"])
        self.peers = {number: whole.get(number) or self.peers[number] for number in present}
        for key, runs in new["fields"].items():
            for number, value in column(runs):
                self.peers[number][key] = value
        self.revision = answer["revision"]

    def status(self):
        """Returns a copy of the state, with the keys of /status.json."""
        return copy.deepcopy({**self.head, **self.lists, "peers": list(self.peers.values())})


class Invented:
    """A run of this many peers that is invented."""

    def __init__(self, peers, seed):
        command = [harness.executable("invented"), str(peers), str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def does(self, command):
        """Returns the answer to a command, as bytes."""
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        length = self.process.stdout.readline()
        harness.check(length, f"no answer to '{command}'")
        return self.process.stdout.read(int(length))

    def full(self):
        return json.loads(self.does("full"))

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        harness.equal(self.process.wait(), 0, "exit code of the invented run")
