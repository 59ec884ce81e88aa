"""Link-local addresses, whose zone names the interface: [fe80::1%eth0]:48148."""

import json
import os
import re
import subprocess

import harness
from certificates import Authority
from harness import equal
from namespaces import Network, need_root

HOST = "[fe80::1%eth0]"


def start(run, **parameters):
    """Starts a master and two peers on a host whose only address is link-local. Returns the function that runs
    pccl-master status there with these arguments, and returns (exit code, members, standard error)."""
    need_root()
    network = Network(1)
    run.at_exit.append(network.remove)
    network.build()
    inside = network.prefix(0)
    on = "for i in lo eth0; do echo 0 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done"
    on += "; ip address flush dev eth0; ip address add fe80::1/64 dev eth0 nodad"
    subprocess.run([*inside, "sh", "-c", on], check=True)
    run.host = HOST
    run.start_master(prefix=inside, http=f"{HOST}:0", **parameters)
    port = re.search(r"http on port (\d+)", run.master.wait_line("http on port")).group(1)
    run.join(2, prefix=inside)

    def status(scheme="", *arguments):
        done = subprocess.run(
            [*inside, harness.executable("master"), "status", f"{scheme}{HOST}:{port}", "--json", *arguments],
            capture_output=True,
            text=True,
            timeout=harness.DEADLINE,
            check=False,
        )
        members = json.loads(done.stdout)["members"] if done.stdout else None
        return done.returncode, members, done.stderr

    return status


def test_in_the_clear(run):
    """Master, peers and status accept an address with its zone."""
    equal(start(run, insecure=1)(), (0, 2, ""), "status")


def test_https(run):
    """The certificate omits the zone."""
    folder = os.path.dirname(run.local)
    authority = Authority(folder)
    certificate, key = authority.make("master", host="fe80::1")
    token = f"{folder}/admin.token"
    with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write("an-admin-token-of-this-test-0123456789\n")
    status = start(run, http_cert=certificate, http_key=key, admin_token_file=token)
    equal(status("https://", "--ca", authority.ca, "--token-file", token), (0, 2, ""), "status")


harness.main()
