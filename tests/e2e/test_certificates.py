"""Certificates instead of tokens: an authority of the run signs them, and their OU gives their purpose."""

import os
import shutil
import signal
import subprocess
import tempfile

import harness
from certificates import Authority
from harness import INVALID_ARGUMENT, MASTER_FAILED, check, equal
from loops import all_right, in_both_sizes, more_steps, start_loops


def folder_of(run):
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


def names(prefix, authority, pair):
    return dict(zip((prefix + "tls_cert", prefix + "tls_key", prefix + "tls_ca"), (*pair, authority.ca)))


def start(run, **parameters):
    """Starts a master with a certificate; peers get one, too. Returns the authority."""
    authority = Authority(folder_of(run))
    run.environment.pop("PCCL_TOKEN_FILE", None)
    run.environment.pop("PCCL_MASTER_STATE", None)
    peers = names("", authority, authority.make("peer", "pccl-join"))
    run.environment.update({"PCCL_" + name.upper(): value for name, value in peers.items()})
    run.master_files = names("master_", authority, authority.make("master", "pccl-master"))
    run.start_master(**run.master_files, **parameters)
    return authority


def refused(peer, run, *parts):
    peer.create(run.address)
    words = peer.do("connect", rc=MASTER_FAILED)["words"]
    for part in parts:
        check(part in words, f"no '{part}' in: {words}")


@in_both_sizes
def run_with_certificates(run, count):
    """Peers join, reduce, lose one of them, and return to a restarted master."""
    start(run, encryption="on" if count < 1 << 20 else "control")
    peers = run.join(3)
    loops = start_loops(peers, count=count)
    more_steps(loops, world=3)
    peers[2].kill()
    more_steps(loops[:2], world=2)
    run.master.kill()
    run.start_master(run.port, **run.master_files)
    more_steps(loops[:2], world=2)
    all_right(loops[:2])


def test_who_does_not_belong_is_told_why(run):
    """No certificate, one of another authority, an expired one, or one for another purpose: both sides get the reason,
    and the others continue."""
    authority = start(run)
    other = Authority(authority.folder, "other")
    members = run.join(2)
    loops = start_loops(members)
    for pair, at_peer, at_master in (
        (authority.make("late", "pccl-join", days=-1), "it has expired", "certificate has expired"),
        (other.make("foreign", "pccl-join"), "by an unknown authority", "unable to get local issuer certificate"),
        (authority.make("web", "pccl-observe"), "it has the wrong role", "expected pccl-join as the first OU"),
        (authority.make("second", "pccl-master"), "it has the wrong role", "expected pccl-join as the first OU"),
        (authority.make("none"), "it has the wrong role", "expected pccl-join as the first OU"),
    ):
        at = len(run.master.lines)
        refused(run.peer(**names("", authority, pair)), run, "does not accept this peer's certificate", at_peer)
        run.master.wait_line(at_master, start=at)
    without = dict.fromkeys(("tls_cert", "tls_key", "tls_ca"), "")
    refused(run.peer(**without), run, "requires encrypted connections", "PCCL_TLS_CERT")
    token = "pccl1.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    refused(run.peer(**without, token=token), run, "is not the one that issued the token")
    run.master.wait_line("a token instead of a certificate")
    more_steps(loops, world=2)
    all_right(loops)


def test_masters_that_are_none(run):
    """A peer accepts only a master with a master's certificate of its authority."""
    authority = start(run)
    other = Authority(authority.folder, "other")
    for pair, signer, words in (
        (other.make("impostor", "pccl-master"), authority, "unable to get local issuer certificate"),
        (authority.make("late", "pccl-master", days=-1), authority, "certificate has expired"),
        (authority.make("member", "pccl-join"), authority, "expected pccl-master as the first OU"),
    ):
        run.start_master(**names("master_", signer, pair))
        refused(run.peer(), run, "the master's certificate", words)
        run.master.wait_line("does not accept this master's certificate")
    run.start_master()
    refused(run.peer(), run, "because it has no certificate", "--tls-cert")


def test_reading_again(run):
    """After SIGHUP a master uses its new certificate and authority, members remain, and peers read theirs at each
    connect. Unusable files change nothing, and cause a message."""
    authority = start(run)
    members = run.join(2)
    files = run.master_files
    with open(files["master_tls_cert"], "rb+") as file:
        good = file.read()
        file.truncate(20)
    run.master.signal(signal.SIGHUP)
    run.master.wait_line("keeping the previously loaded certificate: cannot use " + files["master_tls_cert"])
    with open(files["master_tls_cert"], "wb") as file:
        file.write(good)
    new = Authority(authority.folder, "new")
    pairs = {name: new.make(name, unit) for name, unit in (("master", "pccl-master"), ("peer", "pccl-join"))}
    equal(pairs["master"][0], files["master_tls_cert"], "the same file")
    os.replace(new.ca, authority.ca)
    run.master.signal(signal.SIGHUP)
    run.master.wait_line("certificates reloaded")
    members += [run.join(1, members)]
    loops = start_loops(members)
    run.master.kill()  # a restarted one reads its files again
    run.start_master(run.port, **files)
    more_steps(loops, world=3)
    all_right(loops)


def test_settings(run):
    """Incomplete or unreadable files, and a certificate together with a token, are refused with a reason."""
    authority = start(run)
    chain, key = authority.make("good", "pccl-master")
    _, other_key = authority.make("other", "pccl-master")
    whole = ["--tls-cert", chain, "--tls-key", key, "--tls-ca", authority.ca]
    locked = f"{authority.folder}/locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", key, "-out", locked, "-aes256", "-passout", "pass:secret"], check=True, timeout=60
    )
    for arguments, words in (
        (whole[:4], "(--tls-cert, --tls-key, --tls-ca) must be set together"),
        (whole[:2], "(--tls-cert, --tls-key, --tls-ca) must be set together"),
        ([*whole, "--token-file", f"{authority.folder}/run.token"], "set only one of them"),
        (["--tls-cert", "nowhere.crt", *whole[2:]], "nowhere.crt: no such file"),
        ([*whole[:2], "--tls-key", other_key, *whole[4:]], "key values mismatch"),
        ([*whole[:2], "--tls-key", locked, *whole[4:]], "cannot use " + locked),
        ([*whole[:4], "--tls-ca", key], "cannot use " + key),
    ):
        done = subprocess.run(
            [harness.executable("master"), "--listen", "127.0.0.1:0", *arguments],
            text=True,
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        check(done.returncode == 1 and words in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")
    words = run.peer(tls_ca="").do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("must be set together" in words, words)
    words = run.peer(token="pccl1." + "A" * 22 + "." + "A" * 43).do("create", run.address, rc=INVALID_ARGUMENT)["words"]
    check("set only one of them" in words, words)


def test_openssl_speaks_with_us(run):
    """The program s_client completes handshakes with our master, with and without a certificate; our peer does so with
    s_server."""
    authority = start(run)
    chain, key = authority.make("client", "pccl-join")
    for shown in ((), ("-cert", chain, "-key", key)):
        at = len(run.master.lines)
        done = subprocess.run(
            ["openssl", "s_client", "-connect", run.address, "-tls1_3", "-CAfile", authority.ca, "-verify_return_error"]
            + list(shown),
            input="x" * 64,
            errors="replace",  # the master's refusal is a frame
            capture_output=True,
            timeout=60,
            check=False,
        )
        check("Verify return code: 0 (ok)" in done.stdout + done.stderr, done.stdout[-800:] + done.stderr[-800:])
        line = run.master.wait_line("refused", start=at)  # for its message, once the certificate is valid
        equal("no certificate" in line, not shown, line)
    server = run._add(  # pylint: disable=protected-access
        harness.Process(
            "s_server",
            ["openssl", "s_server", "-accept", "127.0.0.1:0", "-tls1_3", "-Verify", "2", "-verify_return_error"]
            + ["-CAfile", authority.ca, "-cert", run.master_files["master_tls_cert"]]
            + ["-key", run.master_files["master_tls_key"]],
            run.environment,
        )
    )
    port = server.wait_line("ACCEPT").rsplit(":", 1)[1]
    peer = run.peer()
    peer.create(f"127.0.0.1:{port}")
    peer.start("connect")
    server.wait_line("pccl-join")  # in the subject, whose format depends on the version
    peer.kill()
    server.kill()


harness.main()
