"""Networks of unequal peers: the rates of each peer in each direction, lines that the peers of a site share, and slow
pairs. All rates are in Mbit/s."""

import itertools
import typing


class Site(typing.NamedTuple):
    members: tuple
    up: float
    down: float


class Unequal(typing.NamedTuple):
    up: tuple  # of each peer
    down: tuple
    sites: tuple = ()
    pairs: tuple = ()  # (one, other, rate), in both directions

    def bound_s(self, size):
        """Returns the least possible time of an all-reduce of `size` bytes, with any schedule. Slow pairs do not count,
        because other paths lead around them."""

        def most(up, down):
            count = len(up)
            return min(*up, *down, sum(up) / (2 * (count - 1)), sum(down) / (2 * (count - 1)))

        mbit = most(self.up, self.down)
        if len(self.sites) > 1:
            mbit = min(mbit, most([site.up for site in self.sites], [site.down for site in self.sites]))
        return size * 8e-6 / mbit

    def lay_out(self, wan, ports, between_ms=10, within_ms=0.25):
        """Sets everything: peer i is at ports[i]. No delay changes other than those between these ports."""
        for peer, port in enumerate(ports):
            wan.set_one_way(self.up[peer], self.down[peer], port)
            wan.tell(f"site {port} 0")
        for one, other in itertools.combinations(ports, 2):
            wan.set_pair(0, one, other)
            self._set_delays(wan, between_ms, one, other)
        for number, site in enumerate(self.sites):
            members = [ports[peer] for peer in site.members]
            wan.set_site(1 + number, site.up, site.down, members)
            for one, other in itertools.combinations(members, 2):
                self._set_delays(wan, within_ms, one, other)
        for one, other, mbit in self.pairs:
            wan.set_pair(mbit, ports[one], ports[other])

    @staticmethod
    def _set_delays(wan, ms, one, other):
        wan.set_delay(ms, one, other)
        wan.set_delay(ms, other, one)


def _slow(mbit):
    rates = (100, 100, 100, 100, mbit, 100, 100, 100)
    return Unequal(rates, rates)


_EQUAL = 8 * (100,)

NETWORKS = {
    "equal": Unequal(_EQUAL, _EQUAL),
    "two sites": Unequal(_EQUAL, _EQUAL, (Site((0, 1, 2, 3), 25, 25), Site((4, 5, 6, 7), 25, 25))),
    "three sites": Unequal(_EQUAL, _EQUAL, (Site((0, 1, 2), 20, 40), Site((3, 4, 5), 30, 60), Site((6, 7), 50, 50))),
    "a tenth": _slow(10),
    "a half": _slow(50),
    "homes": Unequal((10, 20, 40, 40, 60, 80, 100, 100), (40, 100, 100, 60, 100, 80, 100, 100)),
    "bad pair": Unequal(_EQUAL, _EQUAL, pairs=((0, 1, 2),)),
}
