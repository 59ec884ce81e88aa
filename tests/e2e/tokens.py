"""The tokens of a master with a state directory."""

import ctypes
import os
import shutil
import subprocess
import sys

import harness
from namespaces import SKIPPED

NEW_MOUNTS = 0x20000  # CLONE_NEWNS
# Of a version without checksums: the run's token, and others by their labels.
FORMER_KEY = "pccl-key1: Dh2IK0U096OM8iNGin7-xE6Nju3Od2KLFtTbm8hl_MA\n"
FORMER_TOKENS = {
    "run token": "pccl1.me_Bh4Xtb9pj2w2CkRoj_Q.FCktz2nmlWTbdptcy46Ei_mPb0PVEd11rNvOTjMRDfo",
    "guest": "pccl1.me_Bh4Xtb9pj2w2CkRoj_Q.I2isFaQrvQcs8GjHNrxGFCoYE_0lfaYRCrsuwM7n1sE",
    "gone": "pccl1.me_Bh4Xtb9pj2w2CkRoj_Q.n0DjI39qYwBe_E6fk6f_20UUh81uCGqy_DRodnslCNw",
}
FORMER_BOOK = """pccl-tokens 1 3
token 1 join 1795891823 0 0 0 d42c2e8b808778c98db5adcc09c9693e47f0b97c178127761a85c62b4cb406c2 run token
token 2 join 1795891824 0 0 2 69c27d9355eb3a3a26fa2d5d84e4a96cbed70b89fc71e936d73886e20ced3e81 guest
token 3 join 1795891824 0 1795891824 2 ca9cd62b2b4699617e71cbc7afcbe10fd633b835710d7a1a4a68d9b723eba989 gone
end
"""


def token(run, *arguments, rc=0):
    """Returns the output of `pccl-master token`."""
    command = [harness.executable("master"), "token", *arguments, "--state", run.state]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    harness.check(done.returncode == rc, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}")
    return (done.stderr if rc else done.stdout).strip()


def peer_with(run, text, **more):
    """Starts a peer with only this token."""
    return run.peer(token=text, token_file="", **more)


def refused(peer, address, *parts):
    """Checks that connect fails with this reason."""
    peer.create(address)
    words = peer.do("connect", rc=harness.MASTER_FAILED)["words"]
    for part in parts:
        harness.check(part in words, f"no '{part}' in: {words}")
    return words


def let_in(run, text, members):
    """The peer joins, and makes a step with the others."""
    peer = peer_with(run, text)
    peer.create(run.address)
    run.admit(peer, members)
    return peer


def lines_of_book(run):
    """Returns the lines of the file of tokens, without checksums."""
    with open(f"{run.state}/tokens", encoding="utf-8") as file:
        return [line.rpartition(" ")[0] for line in file.read().splitlines() if line]


def write_book(run, lines):
    """Writes it in the form of former versions, which needs no checksums."""
    with open(f"{run.state}/tokens", "w", encoding="utf-8") as file:
        file.write("\n".join([lines[0].replace("pccl-tokens 2", "pccl-tokens 1"), *lines[1:]]) + "\n")


def use_former_state(run):
    """Makes the state directory of a master of a former version."""
    os.mkdir(run.state, 0o700)
    for name, text in (("master.key", FORMER_KEY), ("run.token", FORMER_TOKENS["run token"]), ("tokens", FORMER_BOOK)):
        with open(f"{run.state}/{name}", "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)


class SmallDisk:
    """Puts the state directory on a separate disk, which can be full; only this process and its children see it."""

    def __init__(self, run):
        if os.geteuid() != 0 or ctypes.CDLL(None).unshare(NEW_MOUNTS) != 0:
            harness.say("skipped: mounting needs root")
            sys.exit(SKIPPED)
        self.folder = run.state
        os.mkdir(self.folder)
        self._do("mount", "--make-rprivate", "/")
        self._do("mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", self.folder)
        run.at_exit.insert(0, lambda: self._do("umount", "--lazy", self.folder))

    @staticmethod
    def _do(*command):
        done = subprocess.run(command, text=True, capture_output=True)
        harness.check(done.returncode == 0, f"{command}: {done.stderr}")

    def fill(self):
        """Takes all free space, including space that the master's attempts to write free."""
        harness.poll(self._take_the_rest, "a full disk")

    def _take_the_rest(self):
        with open(f"{self.folder}/filler", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return shutil.disk_usage(self.folder).free == 0

    def free(self):
        os.unlink(f"{self.folder}/filler")

    def cover(self):
        """Makes it read-only, even while a file there is open for writing."""
        self._do("mount", "--bind", self.folder, self.folder)
        self._do("mount", "-o", "remount,bind,ro", self.folder)

    def uncover(self):
        self._do("umount", self.folder)
