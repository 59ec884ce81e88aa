"""Limits the descriptors or the memory of a running process for a time. A shortage begins when its object
is made and ends with over(); `did` and the result of over() are texts for a log. `process` has a pid and
a name; it may end during the shortage."""

import contextlib
import os
import pathlib
import resource
import signal

import harness

PREFIX = "pccl-"


class Unavailable(Exception):
    """This machine does not permit the shortage. The text is the reason."""


def descriptors(process):
    return {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}


class NoMoreDescriptors:
    """The process keeps its descriptors and gets no other. It can reuse the numbers that it closes, so a
    descriptor that is open briefly, as when the master tries a newcomer's port, must be closed before.
    at_rest: number of descriptors to wait for."""

    def __init__(self, process, at_rest=None):
        self.process = process
        self.limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        if at_rest is not None:
            harness.poll(lambda: len(descriptors(process)) == at_rest, f"{process.name} to hold {at_rest} descriptors")
        used = descriptors(process)
        lowest_free = next(number for number in range(max(used) + 2) if number not in used)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (lowest_free, self.limits[1]))
        self.words = f"too many open files (limit {lowest_free}): raise the limit (ulimit -n)"  # the library's
        self.did = f"{process.name} gets no descriptor from {lowest_free} on; {len(used)} are open"

    def over(self):
        try:
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, self.limits)
        except ProcessLookupError:
            return f"{self.process.name} ended without descriptors"
        return f"{self.process.name} gets descriptors again"


def _paths_of_memory(pid):
    """(version, folder of the mount, folder of the process below it) of each hierarchy of control groups
    that may limit memory."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for _, folder, kind, options, *_ in mounts:
        for number, controllers, path in groups:
            if kind == "cgroup" and "memory" in options.split(",") and "memory" in controllers.split(","):
                yield 1, pathlib.Path(folder), path.lstrip("/")
            elif kind == "cgroup2" and number == "0":
                yield 2, pathlib.Path(folder), path.lstrip("/")


def _parent_for_limits(pid):
    """Returns (version, control group of the process, control group in which a group with a memory limit can be made).
    """
    for version, mount, path in _paths_of_memory(pid):
        home = mount / path
        for parent in [home, *home.parents]:
            if not parent.is_relative_to(mount):
                break
            control = parent / "cgroup.subtree_control"
            if version == 1 or (control.exists() and "memory" in control.read_text(encoding="ascii").split()):
                return version, home, parent
    raise Unavailable("no control group in which memory can be limited")


class ScarceMemory:
    """The process gets `more_kib` of new memory; memory that it already has does not count. Beyond that its
    threads block in the kernel (version 1) or slow down (version 2) at page faults, and system calls may
    fail for lack of memory. The kernel does not kill the process."""

    def __init__(self, process, more_kib):
        self.process = process
        self.version, self.home, parent = _parent_for_limits(process.pid)
        self._remove_leftovers(parent)
        self.group = parent / f"{PREFIX}{os.getpid()}-{process.pid}"
        try:
            self.group.mkdir()
            if self.version == 1:
                self._write("memory.oom_control", 1)  # no kill
            self._limit(more_kib * 1024)
            self._write("cgroup.procs", process.pid)
        except OSError as error:
            self._remove(self.group)
            if isinstance(error, ProcessLookupError):
                raise
            raise Unavailable(f"control group {self.group}: {error.strerror}") from error
        self.did = f"{process.name} gets {more_kib} KiB of memory"

    def _write(self, name, value, group=None):
        ((group or self.group) / name).write_text(str(value), encoding="ascii")

    def _limit(self, size):
        none = {1: -1, 2: "max"}[self.version]
        self._write({1: "memory.limit_in_bytes", 2: "memory.high"}[self.version], none if size is None else size)

    def hits(self):
        """Returns the number of times that the process has reached the limit."""
        if self.version == 1:
            return int((self.group / "memory.failcnt").read_text(encoding="ascii"))
        events = (self.group / "memory.events").read_text(encoding="ascii").split()
        return int(events[events.index("high") + 1])

    def over(self):
        hits = self.hits()
        self._limit(None)
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if self.version == 1:
                self._wake()
            self._write("cgroup.procs", self.process.pid, self.home)
        self._remove(self.group)
        return f"{self.process.name} gets memory again: it reached the limit {hits} times"

    def _wake(self):
        """Wakes the threads that wait for memory. The kernel does so when the limit is raised, but misses a
        thread that is about to wait. This stops the process first: then each thread waits already, or will not."""
        stopped = "T" in self._threads()
        os.kill(self.process.pid, signal.SIGSTOP)
        harness.poll(lambda: self._threads() <= {"T", "waits", "Z", "X"}, f"{self.process.name} to stop")
        self._write("memory.oom_control", 0)
        if not stopped:
            os.kill(self.process.pid, signal.SIGCONT)

    def _threads(self):
        """Returns the states of its threads: letters as in /proc/<pid>/stat, or "waits" if one waits for memory."""
        found = set()
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # the thread has ended
                waits = (task / "wchan").read_text(encoding="ascii") == "mem_cgroup_oom_synchronize"
                state = (task / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
                found.add("waits" if waits else state)
        return found

    @staticmethod
    def _remove(group):
        """Removes a control group. It fails while a process in it ends; then the next test removes the group."""
        with contextlib.suppress(OSError):
            group.rmdir()

    def _remove_leftovers(self, parent):
        """Kills the processes of tests that were killed, and removes their control groups."""
        for group in parent.glob(f"{PREFIX}*-*"):
            if os.path.exists(f"/proc/{group.name.split('-')[1]}"):
                continue
            with contextlib.suppress(OSError):
                for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
                    os.kill(int(pid), signal.SIGKILL)
            self._remove(group)
