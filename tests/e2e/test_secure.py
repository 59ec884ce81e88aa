"""Encryption with one string: the master makes a token, which peers use; a peer without it is refused, with the reason.
"""

import base64
import fcntl
import hmac
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile

import harness
import wire
from harness import INVALID_ARGUMENT
from harness import check, equal, say
from loops import all_right, in_both_sizes, more_steps, start_loop, start_loops
from namespaces import SKIPPED, Network
from tokens import FORMER_TOKENS, SmallDisk, let_in, lines_of_book, peer_with, refused, token, use_former_state
from tokens import write_book

MIB = 1 << 20
TOKEN = "pccl1.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  # not a real token


def nothing_told(run):
    """Checks that no process has written the secret, or has it in its command line."""
    secret = run.token().split(".")[2][:42]  # without its checksum
    for process in run.processes:
        for _, text in process.lines:
            check(secret not in text, f"{process.name} tells the secret")
        if process.popen.poll() is None:
            with open(f"/proc/{process.pid}/cmdline", "rb") as file:
                check(secret.encode() not in file.read(), f"{process.name} has the secret on its command line")


def reduce_and_lose_one(run, count):
    """Three peers join and reduce, then one of them is killed."""
    run.start_master()
    peers = run.join(3)
    loops = start_loops(peers, count=count)
    more_steps(loops, world=3)
    peers[2].kill()
    more_steps(loops[:2], world=2)
    all_right(loops[:2])


@in_both_sizes
def run_with_token(run, count):
    """Peers with the token join, reduce and lose one of them; no process reveals the secret."""
    run.secure()
    reduce_and_lose_one(run, count)
    nothing_told(run)


def files_of_state(run):
    """Returns the names of the files once the event log has been saved for the first time."""
    harness.poll(lambda: os.path.exists(f"{run.state}/events.jsonl"), "the event log")
    return sorted(name for name in os.listdir(run.state) if not name.endswith(".tmp"))


def test_files_are_private_and_stay(run):
    """The master makes key and token once, readable only by this user; a restarted master reuses them, and its peers
    return."""
    run.secure()
    run.start_master()
    names = files_of_state(run)
    equal(names, ["control", "events.jsonl", "lock", "master.key", "run.token", "tokens", "tokens.reserve"], "files")
    equal(stat.S_IMODE(os.stat(run.state).st_mode), 0o700, "mode of the directory")
    for name in names:
        equal(stat.S_IMODE(os.stat(f"{run.state}/{name}").st_mode), 0o600, f"mode of {name}")
    token = run.token()
    run.master.wait_line("PCCL_TOKEN_FILE=" + run.state)  # the line for copying
    a, b = run.join(2)
    loops = start_loops([a, b])
    run.master.kill()
    run.start_master(run.port)
    more_steps(loops, world=2)
    all_right(loops)
    equal(run.token(), token, "the token")
    nothing_told(run)


def restart(run, **more):
    run.master.kill()
    run.start_master(run.port, **more)


def test_roles_of_tokens(run):
    """A token permits only its role: one for joining admits a peer, the others are refused with their purpose, and all
    secrets remain secret."""
    run.secure()
    run.start_master()
    a = run.join(1)
    texts = {role: token(run, "create", "--role", role, "--label", f"for {role}") for role in ("observe", "admin")}
    for role, text in texts.items():
        refused(peer_with(run, text), run.address, "does not allow joining", f"for {role}")
    text = token(run, "create", "--label=for nodes")
    b = let_in(run, text, [a])
    listed = token(run, "list").splitlines()
    equal([line.split()[1] for line in listed], ["join", "observe", "admin", "join"], "roles in the list")
    check(listed[3].endswith("for nodes") and "valid for" in listed[3], listed)  # with a default lifetime
    check("valid for" not in listed[1] + listed[2], listed)
    for line, row in zip(listed, json.loads(token(run, "list", "--json"))):
        equal(line.split()[:2], [str(row["number"]), row["role"]], "the same tokens as JSON")
        check(line.endswith(row["label"]) and ("valid for" in line) == (row["expires_s"] is not None), row)
    token(run, "create", "--ttl", "never", "--label", "for ever")
    check(token(run, "list").endswith("join  good  for ever"), "without an end")
    loops = start_loops([a, b])
    more_steps(loops, world=2)
    all_right(loops)
    with open(f"{run.state}/tokens", encoding="utf-8") as file:
        book = file.read()
    for secret in [other.split(".")[2] for other in (*texts.values(), text)]:
        check(secret not in book, "the book has a secret")
        check(all(secret not in line for process in run.processes for _, line in process.lines), "a secret is told")


def test_revoked_token(run):
    """A peer whose token is revoked is removed at once and cannot return, also after the master's restart; the others
    continue, and a new token admits it."""
    run.secure()
    run.start_master()
    text = token(run, "create", "--label", "guest")
    a, b = run.join(2)
    guest = let_in(run, text, [a, b])
    run.master.wait_line("uses token number 1 (run token)")
    run.master.wait_line("uses token number 2 (guest)")
    loops = start_loops([a, b, guest])
    more_steps(loops, world=3)
    token(run, "revoke", "guest")
    more_steps(loops[:2], world=2)
    ended = loops[2].wait(rc=None)
    check("its token was revoked" in ended["words"], f"the guest hears why: {ended}")
    guest.kill()
    for _ in range(2):
        refused(peer_with(run, text), run.address, "it was revoked")
        run.master.wait_line("its token was revoked")
        restart(run)
    check("already revoked" in token(run, "revoke", "guest", rc=1), "once is enough")
    check("no token" in token(run, "revoke", "nobody", rc=1), "there is none")
    more_steps(loops[:2], world=2)
    all_right(loops[:2])
    newcomer = peer_with(run, token(run, "create"))
    newcomer.create(run.address)
    newcomer.do("connect")


def test_used_up_and_expired_tokens(run):
    """A new peer with one of them is refused, with the reason; a peer that joined with it may return, also to a
    restarted master."""
    run.secure()
    run.start_master()
    once = token(run, "create", "--uses", "1", "--label", "once")
    brief = token(run, "create", "--ttl", "1d", "--label", "brief")
    a = let_in(run, once, [])
    b = let_in(run, brief, [a])
    loops = start_loops([a, b])
    refused(peer_with(run, once), run.address, "once", "has no uses left")
    run.master.kill()
    run.master.end(harness.DEADLINE)
    lines = [line.split(" ") for line in lines_of_book(run)]  # it has expired, no matter how slow this machine is
    next(words for words in lines if words[-1] == "brief")[4] = "1"
    write_book(run, [" ".join(words) for words in lines])
    run.start_master(run.port)
    check("expired" in token(run, "list"), "the end of the brief one")
    more_steps(loops, world=2)
    refused(peer_with(run, once), run.address, "has no uses left")
    refused(peer_with(run, brief), run.address, "has expired", "token create")
    more_steps(loops, world=2)
    all_right(loops)


def test_full_disk(run):
    """While the master cannot write, counted tokens admit no peer and the others do; a revocation in that time persists
    after a restart, and no use is forgotten."""
    run.secure()
    disk = SmallDisk(run)
    run.start_master()
    texts = {
        label: token(run, "create", "--label", label, *limits)
        for label, limits in {"twice": ["--uses", "2"], "open": [], "bad": [], "worse": ["--uses", "9"]}.items()
    }
    members = [run.join(1)]
    members.append(let_in(run, texts["twice"], members))
    disk.fill()
    refused(peer_with(run, texts["twice"]), run.address, "twice", "has a limited number of uses", "cannot record")
    run.master.wait_line("No space left")
    check("1 of 2 uses  twice" in token(run, "list"), "what cannot be written is no use")
    check("No space left" in token(run, "create", rc=1), "no token is made")
    check("No space left" in token(run, "rotate", rc=1), "the run's token is the former one")
    members.append(let_in(run, texts["open"], members))
    loops = start_loops(members)
    for label in ("bad", "worse"):
        token(run, "revoke", label)
        disk.fill()
    more_steps(loops, world=3)
    for _ in range(2):
        restart(run)
        for label in ("bad", "worse"):
            refused(peer_with(run, texts[label]), run.address, "it was revoked")
        refused(peer_with(run, texts["twice"]), run.address, "cannot record")
    more_steps(loops, world=3)
    disk.free()
    let_in(run, texts["twice"], []).quit()
    more_steps(loops, world=3)
    all_right(loops)
    restart(run)
    refused(peer_with(run, texts["twice"]), run.address, "has no uses left")
    disk.cover()
    words = token(run, "revoke", "open", rc=1)
    check("Read-only" in words and "may become valid again" in words, words)
    disk.uncover()
    run.master.wait_line("writing the token file works again")
    check("was already revoked" in token(run, "revoke", "open", rc=1), "the master has written it by itself")


def test_another_token_of_the_run(run):
    """The run gets another token during its operation. The former one admits peers until its end; peers that joined
    with it return after that, also to a restarted master."""
    run.secure()
    run.start_master()
    a, b = run.join(2)
    former = run.token()
    present = token(run, "rotate", "--keep", "1h")
    equal(run.token(), present, "the token in the file")
    check(present != former and present.split(".")[1] == former.split(".")[1], "another one of the same key")
    c = let_in(run, former, [a, b])
    d = let_in(run, present, [a, b, c])
    loops = start_loops([a, b, c, d])
    restart(run)
    more_steps(loops, world=4)
    token(run, "rotate", "--keep", "1s")
    harness.poll(lambda: token(run, "list").count("expired") == 2, "the end of both former ones")
    for text in (former, present):
        refused(peer_with(run, text), run.address, "run token", "has expired", "token create")
    restart(run)
    more_steps(loops, world=4)
    let_in(run, run.token(), []).quit()
    token(run, "revoke", "2")
    more_steps(loops[:3], world=3)
    all_right(loops[:3])
    nothing_told(run)


def test_state_of_a_former_version(run):
    """Files without checksums are read, and the master writes them with checksums."""
    run.secure()
    use_former_state(run)
    run.start_master()
    a = run.join(1)
    refused(peer_with(run, FORMER_TOKENS["gone"]), run.address, "it was revoked")
    b = let_in(run, FORMER_TOKENS["guest"], [a])
    check("1 of 2 uses  guest" in token(run, "list"), "the use")
    check(lines_of_book(run)[0].startswith("pccl-tokens 2 "), "the book has checksums")
    equal(run.token(), FORMER_TOKENS["run token"], "the run's token")
    loops = start_loops([a, b])
    restart(run)
    more_steps(loops, world=2)
    all_right(loops)


def test_tokens_that_cannot_be_made(run):
    """Invalid arguments are refused without effect, and a damaged or public file of tokens is not used."""
    run.secure()
    check("no running master" in token(run, "list", rc=1), "nobody is there")
    run.start_master()
    for bad in (["--role", "king"], ["--ttl", "24"], ["--ttl", "0s"], ["--uses", "x"], ["--label", "a\nb"]):
        token(run, "create", *bad, rc=2)
    check("ten years" in token(run, "create", "--ttl", "9999d", rc=1), "too long")
    check("4096" in token(run, "create", "--uses", "5000", rc=1), "too many")
    check("run's own" in token(run, "create", "--label", "run token", rc=1), "the label of another")
    equal(len(token(run, "list").splitlines()), 1, "tokens")
    lines = lines_of_book(run)
    for more in ({}, {"PCCL_MASTER_TOKEN_FILE": f"{run.state}/new.token"}):
        start_in_vain(run, "in use by another master", **more)
    equal(lines_of_book(run), lines, "the book of the master that runs")
    run.master.kill()
    run.master.end(harness.DEADLINE)
    book = f"{run.state}/tokens"
    os.chmod(book, 0o640)
    start_in_vain(run, "chmod")
    os.chmod(book, 0o600)
    with open(book, "r+", encoding="utf-8") as file:
        text = file.read()
        file.truncate(len(text.rstrip()) - 5)
        start_in_vain(run, "the end is missing")
        file.seek(0)
        file.write(text.replace(" join 1", " join 2", 1))
        file.flush()
        start_in_vain(run, "line 2 is damaged")
    os.unlink(book)
    run.start_master()
    run.join(1)
    os.mkdir(f"{run.state}/aside")
    os.rename(book, f"{run.state}/aside/tokens")
    for path in (book, book + ".reserve"):  # temporarily not writable
        if os.path.exists(path):
            os.unlink(path)
        os.mkdir(path)
    check("may become valid again" in token(run, "revoke", "run token", rc=1), "it is not in the file")
    os.rmdir(book)
    os.rmdir(book + ".reserve")
    token(run, "revoke", "run token")
    check("already revoked" in token(run, "revoke", "run token", rc=1), "it is in the file")
    restart(run)
    run.master.wait_line("own token is revoked")


def flipped(text):
    """Returns the token with one incorrect letter in the secret."""
    return text[:40] + ("a" if text[40] != "a" else "b") + text[41:]


def start_in_vain(run, part, **more):
    """Starts a master that must end, with this reason."""
    environment = dict(run.environment, PCCL_LISTEN="127.0.0.1:0", **more)
    done = subprocess.run([harness.executable("master")], env=environment, text=True, capture_output=True, timeout=60)
    check(done.returncode == 1 and part in done.stderr, f"{done.returncode}: {done.stderr}")


def start_at_once(run, count):
    """Starts `count` masters, and returns the one that listens. Checks that the others end with the reason."""
    masters = []
    for i in range(count):
        environment = dict(run.environment, PCCL_LISTEN="127.0.0.1:0")
        masters.append(harness.Process(f"master{i}", [harness.executable("master")], environment))
        run.processes.append(masters[i])

    def listen():
        here = [any("listening" in text for _, text in master.lines) for master in masters]
        ended = sum(not master.alive() for master in masters)
        return [master for master, listens in zip(masters, here) if listens] if sum(here) + ended >= count else None

    here = harness.poll(listen, "each master to listen or to end")
    equal(len(here), 1, "masters that listen")
    for master in masters:
        if master not in here:
            master.killed = True
            equal(master.end(harness.DEADLINE), 1, "exit code of another master")
            master.wait_line("in use by another master")
    return here[0]


def test_two_masters_of_a_directory(run):
    """Only one master uses the state directory: also if several start at once, in a new directory or one with the
    socket of an ended master, while it is stopped, and with a version that takes no lock."""
    run.secure()
    for _ in range(2):
        master = start_at_once(run, 4)
        master.stop()
        start_in_vain(run, "in use by another master")
        master.kill()
        master.end(harness.DEADLINE)
    with open(f"{run.state}/lock", "rb") as file:  # like another master that has just started
        fcntl.flock(file, fcntl.LOCK_EX)
        start_in_vain(run, "in use by another master")
        check(os.path.exists(f"{run.state}/control"), "the socket is left to the one with the lock")
    os.unlink(f"{run.state}/control")
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(f"{run.state}/control")
        former.listen()
        start_in_vain(run, "in use by another master")
    run.start_master()
    check("join  good  run token" in token(run, "list"), "it has replaced the dead socket")
    run.join(1)


def test_files_that_are_no_secret(run):
    """Secrets that are public, missing or inconsistent are not used."""
    run.secure()
    run.start_master().kill()
    key, token = f"{run.state}/master.key", f"{run.state}/run.token"
    for path, good in ((key, 0o600), (token, 0o600), (run.state, 0o700)):
        os.chmod(path, good | 0o040)
        start_in_vain(run, "chmod")
        os.chmod(path, good)
    with open(token, "r+", encoding="ascii") as file:
        text = file.read()
        file.seek(0)
        for wrong, words in (
            (TOKEN, "does not belong to the key"),
            ("", "empty"),
            ("nonsense", "not a master's token"),
            (flipped(text), "run.token: this token is damaged"),
            (flipped(text[:71].replace("pccl2", "pccl1") + "A"), "without a checksum it may be damaged"),
        ):
            file.seek(0)
            file.truncate()
            file.write(wrong)
            file.flush()
            start_in_vain(run, words)
    os.rename(key, key + ".away")
    with open(token, "w", encoding="ascii") as file:
        file.write(text)
    start_in_vain(run, "is missing")
    os.rename(key + ".away", key)
    os.unlink(token)  # a new token of the same key
    run.start_master()
    check(run.token().split(".")[1] == text.split(".")[1], "the key stays")
    check(run.token() != text.strip(), "the token is a new one")


def test_host_without_openssl(run):
    """Without the library a token is an error, no file is made, and all else works."""
    run.secure()
    libraries = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(libraries, ignore_errors=True))
    for name in ("libcrypto.so.3", "libssl.so.3"):
        with open(f"{libraries}/{name}", "wb"):  # found first, and not a library
            pass
    start_in_vain(run, "cannot load OpenSSL 3, which encryption requires", LD_LIBRARY_PATH=libraries)
    check(not os.path.exists(run.state), "nothing was made")
    run.environment.update(LD_LIBRARY_PATH=libraries)
    peer = run.peer(token=TOKEN)
    words = peer.do("create", "127.0.0.1:1", rc=None)["words"]
    check("OpenSSL 3" in words, words)
    run.environment.update(PCCL_MASTER_STATE="", PCCL_TOKEN_FILE="")
    run.start_master()
    run.join(2)


def test_token_by_itself(run):
    """PCCL_TOKEN is equivalent to PCCL_TOKEN_FILE; the error for an invalid one does not show it."""
    run.secure()
    run.start_master()
    a = run.peer(token=run.token(), token_file="")
    a.create(run.address)
    a.do("connect")
    broken = run.token()[:-1] + "!"
    b = run.peer(token=broken, token_file="")
    words = b.do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("value for token" in words and "PCCL_TOKEN" in words, words)
    check(broken.split(".")[2] not in words, f"the token is shown: {words}")
    words = run.peer(token=flipped(run.token())).do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("PCCL_TOKEN" in words and "damaged" in words, words)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(flipped(run.token()))
        file.flush()
        words = run.peer(token_file=file.name).do("create", run.address, rc=INVALID_ARGUMENT)["words"]
        check(file.name in words and "damaged" in words, words)
    c = run.peer(token_file=f"{run.state}/missing")
    check("missing" in c.do("create", run.address, rc=None)["words"], "the file is named")
    nothing_told(run)


def test_who_does_not_belong_is_told_why(run):
    """Another token, none, and a token where the master has none: a reason on both sides, and the others continue."""
    run.secure()
    run.start_master()
    members = run.join(2)
    loops = start_loops(members)
    pin = run.token().split(".")[1]
    refused(run.peer(token_file=""), run.address, "requires encrypted connections", "PCCL_TOKEN")
    run.master.wait_line("requires encrypted connections")
    refused(run.peer(token=TOKEN.replace("A" * 22, pin, 1), token_file=""), run.address, "does not accept the token")
    run.master.wait_line("its token is not this master's")
    refused(run.peer(token=TOKEN, token_file=""), run.address, "is not the one that issued the token")
    run.master.wait_line("a token of another master")
    more_steps(loops, world=2)
    all_right(loops)
    nothing_told(run)


def test_shared_secret(run):
    """One secret in the environment of all is enough: peers join, return to a restarted master, and a peer with another
    one is refused. It is never shown, and not accepted on a command line."""
    secret, other = "kC3+0aVJmZ1yq/P8hHnF4Q==", "00f1e2d3c4b5a69788796a5b4c3d2e1f"
    run.environment.update(PCCL_SECRET=secret)
    run.start_master()
    a, b = run.join(2)
    loops = start_loops([a, b])
    restart(run)
    more_steps(loops, world=2)
    refused(run.peer(secret=other), run.address, "has a different key: its PCCL_SECRET differs, or its build of PCCL")
    refused(run.peer(token=TOKEN, secret=""), run.address, "its key is different")
    refused(run.peer(secret=""), run.address, "requires encrypted connections")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(secret + "\n")
        file.flush()
        c = run.peer(secret="", secret_file=file.name)
        c.create(run.address)
        c.do("connect")
    c.quit()
    more_steps(loops, world=2)
    d = run.peer(token=TOKEN)
    words = d.do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("set only one of them" in words, words)
    words = run.peer(secret="too short").do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("openssl rand" in words and "too short" not in words, words)
    for arguments in (["--print-config"], ["--set", f"secret={other}"]):
        done = subprocess.run(
            [harness.executable("master"), *arguments], env=run.environment, text=True, capture_output=True, timeout=60
        )
        check(secret not in done.stdout + done.stderr and other not in done.stdout + done.stderr, "it is shown")
    check("only be set in the environment" in done.stderr, done.stderr)
    for process in run.processes:
        check(all(secret not in text for _, text in process.lines), f"{process.name} tells the secret")


def test_shared_secret_with_a_state(run):
    """With a state directory the master makes tokens, too; a key file there together with a secret is refused."""
    run.secure()
    run.environment.update(PCCL_TOKEN_FILE="", PCCL_SECRET="kC3+0aVJmZ1yq/P8hHnF4Q==")
    run.start_master()
    text = token(run, "create", "--label", "guest")
    guest = peer_with(run, text, secret="")
    guest.create(run.address)
    guest.do("connect")
    equal(files_of_state(run), ["control", "events.jsonl", "lock", "run", "tokens", "tokens.reserve"], "files")
    guest.quit()
    restart(run, secret="00f1e2d3c4b5a69788796a5b4c3d2e1f")  # an incorrect one
    restart(run)
    run.join(1).quit()
    token(run, "revoke", "run token")
    for secret in ("00f1e2d3c4b5a69788796a5b4c3d2e1f", run.environment["PCCL_SECRET"]):
        restart(run, secret=secret)
    run.master.wait_line("own token is revoked, so no peer can join with it: change the secret")
    refused(run.peer(), run.address, "it was revoked")
    run.master.kill()
    run.master.end(harness.DEADLINE)
    with open(f"{run.state}/master.key", "w", encoding="ascii"):
        pass
    start_in_vain(run, "set only one of them")


def test_master_without_token(run):
    """A peer with a token refuses a master that does not encrypt, and names the solution."""
    run.start_master()
    refused(run.peer(token=TOKEN), run.address, "--token-file")
    run.master.wait_line("it requests encryption, but there is no token here")


def test_warning_without_a_token(run):
    """A public master logs its protection; --insecure silences the warning."""
    for insecure in (0, 1):
        master = run.start_master(listen="0.0.0.0:0", insecure=insecure)
        warned = [text for _, text in master.lines if "--token-file" in text]
        equal(len(warned), 1 - insecure, "warnings")
        master.kill()
    run.secure()
    master = run.start_master(listen="0.0.0.0:0")
    check(not any("there is no token" in text for _, text in master.lines), "a warning with a token")


class Stranger:
    """Connects, sends some bytes and keeps the connection open."""

    def __init__(self, port, said=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=harness.DEADLINE)
        self.socket.sendall(said)

    def heard(self):
        """Returns all bytes until the other side closes."""
        heard = b""
        try:
            while more := self.socket.recv(65536):
                heard += more
        except OSError:
            pass
        self.socket.close()
        return heard


def test_strangers_at_closed_doors(run):
    """Incomplete handshakes, garbage and unencrypted frames are ended, without effect on the members."""
    run.secure()
    run.environment.update(PCCL_LOG_LEVEL="INFO")
    run.start_master(hello_ms=1000)
    members = run.join(2, connect_timeout_ms=1000)
    loops = start_loops(members)
    ports = [run.port] + [port for member in members for port in member.listening_ports()]
    forge = run.forge
    frame = forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity()))
    greeting = wire.secure_greeting(run.token())
    endless = b"\x16\x03\x01\x10\x00" + bytes([1, 0, 255, 255]) + bytes(4092)
    garbage = b"\x16\x03\x03\x00\x08" + bytes(range(8))
    openings = {
        "silence": b"",
        "half a greeting": greeting[:60],
        "a greeting and no more": greeting,
        "a greeting that never ends": wire.knock(run.token(), endless) + endless + bytes(65536),
        "a frame in the clear": frame,
        "HTTP": b"GET / HTTP/1.1\r\n\r\n",
        "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
        "garbage in a record": wire.knock(run.token(), garbage) + garbage,
    }
    for port in ports:
        strangers = {what: Stranger(port, said) for what, said in openings.items()}
        heard = {what: stranger.heard() for what, stranger in strangers.items()}
        check(b"PCCL_TOKEN" in heard["a frame in the clear"] or port != run.port, f"an answer: {heard}")
        check(heard["a greeting and no more"][:1] == b"\x16" or port != run.port, "OpenSSL's answer")
    crowd = [Stranger(run.port, greeting[:60]) for _ in range(300)]
    for stranger in crowd:
        stranger.heard()
    more_steps(loops, world=2)
    all_right(loops)
    newcomer = run.peer()
    newcomer.create(run.address)
    newcomer.do("connect")
    loops.append(start_loop(newcomer, 2))
    harness.wait_until(lambda: loops[2].steps, "steps of the newcomer")
    more_steps(loops, world=3)
    all_right(loops)


def dump(process, folder):
    """Returns the core dump of the process, which ends it. If the system pipes dumps elsewhere: the memory that one
    would contain."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        real = file.read()[0] not in "|/"
    if real:
        process.killed = True
        os.kill(process.pid, signal.SIGABRT)
        process.end(harness.DEADLINE)
        (name,) = os.listdir(folder)
        with open(f"{folder}/{name}", "rb") as file:
            return file.read()
    parts = []
    with open(f"/proc/{process.pid}/smaps", encoding="ascii") as file:
        maps = re.findall(r"(?m)^(\w+)-(\w+) r.*\n(?:[A-Z].*\n)*?VmFlags:(.*)$", file.read())
    with open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
        for start, end, flags in maps:
            if " dd" not in flags and " io" not in flags and " pf" not in flags:
                memory.seek(int(start, 16))
                parts.append(memory.read(int(end, 16) - int(start, 16)))
    process.kill()
    return b"".join(parts)


def test_core_dumps(run):
    """Core dumps of a master and of a peer, during a run, contain neither the token, in any form, nor the keys derived
    from it, nor the master's key."""
    run.secure()
    folders = [tempfile.mkdtemp() for _ in range(3)]
    run.at_exit += [lambda folder=folder: shutil.rmtree(folder, ignore_errors=True) for folder in folders]
    dumps = [["sh", "-c", f'ulimit -c unlimited; cd {folder}; exec "$@"', "-"] for folder in folders]
    run.start_master(prefix=dumps[0])
    peers = [run.join(), run.peer(prefix=dumps[1])]
    peers[1].create(run.address)
    run.admit(peers[1], peers[:1])
    loops = start_loops(peers, count=40000)
    more_steps(loops, world=2)
    secret = base64.urlsafe_b64decode(run.token().split(".")[2])[:32]
    with open(f"{run.state}/master.key", encoding="ascii") as file:
        key = base64.urlsafe_b64decode(file.read().split()[1] + "=")
    secrets = {
        "the token": run.token().encode(),
        "its text": run.token().split(".")[2].encode(),
        "its secret": secret,
        "the key made of it": hmac.digest(secret, b"pccl client 1\0", "sha256"),
        "the master's key": key,
    }
    seen = {"the peer": dump(peers[1], folders[1]), "the master": dump(run.master, folders[0])}
    for who, content in seen.items():
        check(len(content) > MIB, f"the dump of {who} has {len(content)} bytes")
        found = [what for what, bytes_of in secrets.items() if bytes_of in content]
        check(not found, f"the dump of {who} has {found}")


CAPTURE = """
import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
print("captures", flush=True)
with open(sys.argv[1], "wb") as file:
    while True:
        file.write(wire.recv(1 << 16)[54:])
        file.flush()
"""


def seen_on_the_wire(run, encryption, **parameters):
    """Returns all traffic between a master and two peers on separate hosts, while the peers reduce, synchronize and
    measure, and the token of the run. None for `encryption`: no encryption."""
    network = Network(3)
    network.build()
    path = tempfile.mktemp()
    run.at_exit += [network.remove, lambda: os.path.exists(path) and os.unlink(path)]
    if encryption:
        run.secure(encryption)
    run.host = network.address(0)
    capture = run._add(
        harness.Process(
            "capture",
            ["ip", "netns", "exec", network.switch, sys.executable, "-c", CAPTURE, path],
            run.environment,
        )
    )
    capture.wait_line("captures")
    run.start_master(port=48148, prefix=network.prefix(0))
    peers = [run.peer(name=f"whisper{i}", prefix=network.prefix(1 + i), **parameters) for i in range(2)]
    for peer in peers:
        peer.create(run.address)
    peers[0].do("connect")
    run.admit(peers[1], [peers[0]])
    for count in (100, 4 * MIB):
        for call in [peer.start("reduce", 1, count, "f32", "sum", "const:1") for peer in peers]:
            call.wait(rc=harness.SUCCESS)
    for call in [peer.start("optimize") for peer in peers]:
        call.wait(rc=harness.SUCCESS)
    capture.kill()
    with open(path, "rb") as file:
        return file.read()


def captured(run, encryption, tiny, bulk):
    if os.geteuid() != 0:
        say("skipped: needs network namespaces")
        sys.exit(SKIPPED)
    seen = seen_on_the_wire(run, encryption)
    ones = b"\x00\x00\x80\x3f" * 16
    check(len(seen) > 16 * MIB, f"{len(seen)} bytes were captured")
    equal(ones in seen, tiny or bulk, "payload is seen")
    equal(seen.count(ones * 16) > 1000, bulk, "much payload is seen")
    if encryption:
        secret = run.token().split(".")[2].encode()
        check(secret not in seen and run.token().encode() not in seen, "the token is seen")


def test_wire_shows_payload(run):
    """Without a token: the test detects the patterns."""
    captured(run, None, True, True)


def test_wire_shows_nothing(run):
    """With a token."""
    captured(run, "on", False, False)


def test_wire_shows_payload_of_links_only(run):
    """With `control`: links are authenticated, and their traffic is readable."""
    captured(run, "control", False, True)


def test_slow_wire_shows_renewals(run):
    """Keys are renewed during work: complete exchanges occur, on control connections and links."""
    if os.geteuid() != 0:
        say("skipped: needs network namespaces")
        sys.exit(SKIPPED)
    seen = seen_on_the_wire(run, "on", rekey_ms=20)
    keys = len(re.findall(rb"\x20\0\0\x03....\0{4}", seen, re.DOTALL))  # the header of a record: length, kind, number
    ends = len(re.findall(rb"\0\0\0\x04....\0{4}", seen, re.DOTALL))
    say(f"{keys} keys and {ends} ends of renewals")
    check(keys >= 20 and 0.9 * keys / 2 <= ends <= keys / 2, f"{keys} keys and {ends} ends of renewals were seen")


@in_both_sizes
def renewals(run, count):
    """Keys are renewed every few milliseconds: results are correct while one peer is killed, another one joins, and the
    master restarts."""
    run.secure()
    run.start_master()
    peers = run.join(3, rekey_ms=10)
    loops = start_loops(peers, count=count)
    more_steps(loops, steps=20, world=3)
    peers[2].kill()
    more_steps(loops[:2], world=2)
    run.master.kill()
    run.start_master(run.port)
    more_steps(loops[:2], world=2)
    newcomer = run.peer(rekey_ms=10)
    newcomer.create(run.address)
    newcomer.do("connect")
    loops.append(start_loop(newcomer, 3, count=count))
    harness.wait_until(lambda: loops[3].steps, "steps of the newcomer")
    more_steps([*loops[:2], loops[3]], steps=20, world=3)
    all_right(loops)


@in_both_sizes
def control(run, count):
    """The mode `control`: peers join, reduce, optimize and lose one of them."""
    run.secure("control")
    reduce_and_lose_one(run, count)


def test_encryption_off(run):
    """With `off` a token is not used; no other master uses the state directory."""
    run.secure("off")
    run.start_master()
    a = run.peer(token_file="")
    a.create(run.address)
    a.do("connect")
    start_in_vain(run, "in use by another master")
    check("without encryption" in token(run, "list", rc=1), "there are no tokens")


harness.main()
