"""Two machines joined by a cable, as network namespaces. Needs root and ip of iproute2."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import namespaces  # noqa: E402
import pages  # noqa: E402

COUNT = 2


class _Network(namespaces.Network):
    def address(self, host):
        return f"10.0.0.{1 + host}"


class Two:
    port = "48148"

    def __init__(self, _root):
        namespaces.need_root()
        self._network = _Network(COUNT)
        try:
            self._network.build()
        except BaseException:
            self._network.remove()
            raise

    def prefix(self, terminal):
        if terminal not in ("1", "2"):
            raise pages.BadPage(f"terminal {terminal} is on neither of two machines")
        return self._network.prefix(int(terminal) - 1)

    def translate(self, text, _folder, _port):
        return text

    def listen(self):
        return {}

    def close(self):
        self._network.remove()


def typed(blocks):
    """What is typed into terminals, with its output; there must be something for each machine."""
    kept, last = [], None
    for block in blocks:
        last = block.kind if block.kind != "output" else last
        if last in ("sh", "file"):
            kept.append(block)
    used = {block.options.get("terminal", "1") for block in kept if block.kind == "sh"}
    if used != {"1", "2"}:
        raise pages.BadPage(f"a page for two machines has terminals 1 and 2, not {sorted(used)}")
    return kept
