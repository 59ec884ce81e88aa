"""Displays a run: on a terminal as a table that is redrawn in place below the events, elsewhere as plain lines without
escape codes."""

import os
import shutil
import time

REDRAW_S = 0.1
UP, CLEAR_BELOW, CLEAR_LINE = "\x1b[{}A", "\x1b[J", "\x1b[K"


class Plain:
    """Output for files and pipes. Each event is a line, and so is every n-th round."""

    def __init__(self, out, every=4):
        self._out, self._every, self._start = out, every, time.monotonic()

    def event(self, words):
        print(f"{time.monotonic() - self._start:6.1f} s  {words}", file=self._out, flush=True)

    def round(self, number, rounds, words):
        if number in (1, rounds) or number % self._every == 0:
            self.event(words)

    def table(self, rows):
        """Shows the current table, if the display has one."""

    def close(self):
        """Ends the table."""


class Live(Plain):
    """Output for terminals."""

    def __init__(self, out):
        super().__init__(out)
        self._rows, self._height, self._drawn = [], 0, 0.0

    def event(self, words):
        self._erase()
        super().event(words)
        self._draw()

    def round(self, number, rounds, words):
        """Does nothing, because the table shows the round."""

    def table(self, rows):
        self._rows = rows
        if time.monotonic() - self._drawn > REDRAW_S:
            self._erase()
            self._draw()

    def close(self):
        self._erase()
        self._rows = []

    def _erase(self):
        if self._height:
            self._out.write(UP.format(self._height) + CLEAR_BELOW)
            self._height = 0
            self._out.flush()

    def _draw(self):
        columns, lines = shutil.get_terminal_size()
        rows = self._rows[: max(0, lines - 2)]  # lines that have scrolled off cannot be erased
        for row in rows:
            self._out.write(row[: columns - 1] + CLEAR_LINE + "\n")
        self._height, self._drawn = len(rows), time.monotonic()
        self._out.flush()


def choose(out):
    terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Live(out) if terminal else Plain(out)


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def bar(share, width=20):
    return "#" * round(share * width) + "." * (width - round(share * width))
