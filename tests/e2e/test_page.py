"""The master's page in a real browser (Chromium, headless): a run with a slow link, a stopped peer, a killed peer and a
join."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import harness
from certificates import Authority
from harness import SUCCESS, check, equal, poll
from loops import start_loop
from namespaces import need_root

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wan"))
from wan import Wan  # noqa: E402 pylint: disable=wrong-import-position

MASTER, MEMBERS = 0, 5
HTTP = 48180
BUDGET_MS = 2500  # virtual time of the browser, in which the page makes two requests
WIDTH, HEIGHT = 1280, 1560
DARK = "--blink-settings=preferredColorScheme=0"
LIGHT = "--blink-settings=preferredColorScheme=1"


class Browser:
    """Loads a page, each time as a new visitor."""

    def __init__(self, run, prefix, url):
        self.program = shutil.which("chromium")
        if self.program is None:
            harness.say("skipped: chromium is not installed")
            sys.exit(77)
        self.home = tempfile.mkdtemp()
        run.at_exit.append(lambda: shutil.rmtree(self.home, ignore_errors=True))
        self.prefix, self.url = prefix, url

    def _look(self, *arguments):
        command = [*self.prefix, self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += [f"--user-data-dir={self.home}/profile", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
        command += [f"--virtual-time-budget={BUDGET_MS}", *arguments, self.url]
        environment = {"HOME": self.home, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=harness.DEADLINE, check=False, env=environment
        )
        equal(done.returncode, 0, f"exit code of the browser: {done.stderr[-500:]}")
        return done.stdout

    def parts(self):
        """Returns the text of each part of the page after its scripts have run."""
        page = self._look("--dump-dom")
        found = re.findall(r'<(section|span) id="(\w+)"(.*?)</\1>(?=\s*<(?:section|span|/main|/header))', page, re.S)
        return {name: re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", "<" + words)) for _, name, words in found}

    def shows(self, **wanted):
        """Waits until each part matches its pattern."""

        seen = {}

        def found():
            seen.update(self.parts())
            return seen if all(re.search(pattern, seen[name]) for name, pattern in wanted.items()) else None

        try:
            return poll(found, f"the page to show {wanted}")
        except harness.Failure as failure:
            raise harness.Failure(f"{failure}; it shows { {name: seen.get(name) for name in wanted} }") from failure

    def picture(self, name, colors):
        """Takes a picture of the whole page; E2E_PICTURES keeps it in a folder for a person."""
        path = os.path.join(os.environ.get("E2E_PICTURES", self.home), f"{name}.png")
        self._look(f"--screenshot={path}", colors)
        check(os.path.getsize(path) > 20000, f"{path} is nearly empty")


class Visitor:
    """A visitor that stays on a page and types: a browser controlled through its pipe (--remote-debugging-pipe)."""

    def __init__(self, run, url):
        program, home = shutil.which("chromium"), tempfile.mkdtemp()
        if program is None:
            harness.say("skipped: chromium is not installed")
            sys.exit(77)
        theirs, self.out = os.pipe()
        self.into, answers = os.pipe()
        give = f'exec "$@" 3<&{theirs} 4>&{answers}'  # some other shells support no descriptor above 9
        command = ["bash", "-c", give, "bash", program, "--headless=new", "--no-sandbox"]
        command += ["--disable-gpu", "--ignore-certificate-errors", f"--user-data-dir={home}/profile"]
        self.process = subprocess.Popen(
            [*command, "--remote-debugging-pipe", url],
            pass_fds=(theirs, answers),
            env={"HOME": home, "PATH": os.environ["PATH"]},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        run.at_exit += [self.leave, lambda: shutil.rmtree(home, ignore_errors=True)]
        os.close(theirs)
        os.close(answers)
        self.heard, self.asked = b"", 0
        page = poll(lambda: self._find(url), "the page")
        self.session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]

    def _find(self, url):
        targets = self._ask("Target.getTargets")["targetInfos"]
        return next((target["targetId"] for target in targets if target["url"] == url), None)

    def _ask(self, method, **parameters):
        self.asked += 1
        question = {"id": self.asked, "method": method, "params": parameters}
        if method.startswith("Runtime"):
            question["sessionId"] = self.session
        os.write(self.out, json.dumps(question).encode() + b"\0")
        while True:
            while b"\0" not in self.heard:
                more = os.read(self.into, 1 << 16)
                check(more, "the browser has ended")
                self.heard += more
            one, self.heard = self.heard.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.asked:
                return answer["result"]

    def does(self, script):
        """Returns the value of this script in the page."""
        return self._ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def sees(self, part, words):
        def found():
            return re.search(words, self.does(f"document.getElementById('{part}')?.innerText") or "")

        poll(found, f"'{words}' in the part {part}")

    def types(self, token):
        self.does(f"document.getElementById('token').value = '{token}'; document.querySelector('form').requestSubmit()")

    def leave(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)


def token(run, role):
    command = [harness.executable("master"), "token", "create", "--role", role, "--state", run.state]
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=60).stdout.strip()


def test_slow_browser_with_a_token(run):
    """Over HTTPS the page is empty until the visitor types a token; a token that can only read gives no commands."""
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    certificate, key = Authority(folder).make("web")
    run.secure()
    run.start_master(http="0.0.0.0:0", http_cert=certificate, http_key=key)
    port = run.master.wait_line("http on port").split()[-1]
    visitor = Visitor(run, f"https://127.0.0.1:{port}/")
    visitor.sees("entry", "Token required")
    equal(visitor.does("document.getElementById('tiles').innerText"), "", "what is shown before")
    visitor.types("nonsense")
    visitor.sees("entry", "not a master's token")
    visitor.types(token(run, "observe"))
    visitor.sees("state", "live")
    check(visitor.does("document.getElementById('entry').hidden"), "it still asks")
    visitor.does(f"window.prompt = () => '{token(run, 'admin')}'; command('optimize'); 0")
    visitor.sees("admin", "does not allow commands")
    visitor.does("command('optimize'); 0")
    visitor.sees("admin", "nothing to search")
    check("pccl2" not in visitor.does("location.href + document.cookie"), "the token is in the address")


def far_members(run):
    """Starts peers on separate hosts, with a master whose page is open."""
    wan = Wan(MEMBERS + 2, rate_mbit=0, delay_ms=3, queue_kib=512)
    run.at_exit.append(wan.remove)
    wan.build()
    for a in range(1, MEMBERS + 2):
        for b in range(1, MEMBERS + 2):
            if a != b:
                wan.set_rate(200, a, b)
    run.host = wan.address(MASTER)
    patient = {"silence_ms": 600000, "heartbeat_ms": 500}
    run.start_master(48148, prefix=wan.prefix(MASTER), http=f"127.0.0.1:{HTTP}", **patient)
    peers = []
    for i in range(MEMBERS):
        peers.append(member(run, wan, i, peers))
    return wan, peers


def member(run, wan, number, others):
    peer = run.peer(name=f"trainer-{number}", prefix=wan.prefix(1 + number), where_ms=200, link_silence_ms=600000)
    peer.create(run.address, name=peer.name)
    run.admit(peer, others)
    return peer


def report(peers, steps):
    for step in steps:
        for i, peer in enumerate(peers):
            peer.do("report", step, 1.8 + 9 / (1 + step / 40) + 0.12 * i)
        harness.wait_ms(110)


def together(peers, *words):
    calls = [peer.start(*words) for peer in peers]
    for call in calls:
        call.wait(rc=SUCCESS)


def test_slow_browser(run):
    """The page shows the slow, the stopped, the departed and the new peers."""
    need_root()
    wan, peers = far_members(run)
    browser = Browser(run, wan.prefix(MASTER), f"http://127.0.0.1:{HTTP}/")
    together(peers, "optimize")
    for tag in range(4):
        together(peers, "reduce", tag, 400000, "f32", "sum", "rand:1")
    report(peers, range(0, 600, 40))
    training = "step 560: .* reported by 5"
    parts = browser.shows(state="live", calls="No calls are waiting", training=training, ring="[0-9] [kMG]?B/s")
    check(all(peer.name in parts["peers"] for peer in peers), f"peers: {parts}")
    browser.picture("light", LIGHT)

    wan.set_rate(20, 2, 3)  # a slow link, one way
    together(peers, "optimize")
    for tag in range(4, 8):
        together(peers, "reduce", tag, 400000, "f32", "sum", "rand:1")

    peers[3].stop()
    calls = [peer.start("reduce", 9, 1000, "f32", "sum", "rand:1") for peer in peers if peer is not peers[3]]
    peers[0].until_waiting()

    browser.shows(calls="4 of 5 entered.* trainer-3 is silent")
    browser.picture("stands-light", LIGHT)
    browser.picture("stands-dark", DARK)
    peers[3].kill()
    for call in calls:
        call.wait()
    peers.pop(3)
    browser.shows(gone="trainer-3")

    newcomer = run.peer(name="trainer-5", prefix=wan.prefix(6), where_ms=200)
    newcomer.create(run.address, name=newcomer.name)
    connect = newcomer.start("connect")
    browser.shows(peers="trainer-5 [0-9a-f]{8} newcomer")
    for call in [peer.start("admit") for peer in peers]:
        call.wait(rc=SUCCESS)
    connect.wait(rc=SUCCESS)
    peers.append(newcomer)
    loops = [start_loop(peer, bit) for bit, peer in enumerate(peers)]
    poll(lambda: all(loop.steps for loop in loops), "the first steps")
    parts = browser.shows(peers="trainer-5 [0-9a-f]{8} (working|waiting)")
    check("newcomer" not in parts["peers"], f"peers: {parts}")
    browser.picture("dark", DARK)


harness.main()
