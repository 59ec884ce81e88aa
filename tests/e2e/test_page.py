"""The master's page in a real browser (Chromium, headless): a run with a slow link, a stopped peer, a killed peer and a
join."""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import harness
from certificates import Authority
from changes import Invented
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
        found = re.findall(
            r'<(section|span) id="(\w+)"(.*?)</\1>(?=\s*<(?:section|div|span|/main|/header))', page, re.S
        )
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
        command += ["--disable-gpu", "--hide-scrollbars", "--ignore-certificate-errors"]
        command += [f"--user-data-dir={home}/profile"]
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
        if not method.startswith("Target"):
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
            return re.search(words, self.does(f"document.getElementById('{part}')?.innerText") or "", re.S)

        poll(found, f"'{words}' in the part {part}")

    def resizes(self, width, height, scheme, scale=1):
        """Shows the page in a window of this size, on a phone if it is narrow, in this color scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._ask("Emulation.setEmulatedMedia", features=[feature])

    def takes(self, path):
        """Takes a picture of the whole page."""
        answer = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def presses(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def types_text(self, text):
        self._ask("Input.insertText", text=text)

    def types(self, token):
        self.does(f"document.getElementById('token').value = '{token}'; document.querySelector('form').requestSubmit()")

    def leave(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            os.close(self.out)
            os.close(self.into)


class Server(http.server.ThreadingHTTPServer):
    """Serves the page for a run that is invented, and lets a second pass in the run with each answer."""

    page = pathlib.Path(__file__).resolve().parents[2] / "src/ops/dashboard.html"

    def __init__(self, run, peers):
        super().__init__(("127.0.0.1", 0), Answer)
        self.invented, self.lock, self.silent, self.passes = Invented(peers, 1), threading.Lock(), False, True
        threading.Thread(target=self.serve_forever, daemon=True).start()
        run.at_exit += [self.shutdown, self.invented.end]

    def answer(self, path):
        """Returns (content type, bytes)."""
        target = urllib.parse.urlsplit(path)
        if target.path == "/":
            return "text/html; charset=utf-8", self.page.read_bytes()
        with self.lock:
            if self.passes:
                self.invented.does("run 1000")
            return "application/json", self.invented.does("since " + urllib.parse.parse_qs(target.query)["since"][0])


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        if self.server.silent:
            self.send_error(503)
            return
        kind, body = self.server.answer(self.path)
        self.send_response(400 if body == b"invalid" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


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

    silent = "not entered: trainer-3|trainer-3 is silent"
    browser.shows(calls="4 of 5 entered.* trainer-3 \\(silent\\)", problems=silent)
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
    browser.shows(peers="trainer-5 [0-9a-f]{8} . newcomer")
    for call in [peer.start("admit") for peer in peers]:
        call.wait(rc=SUCCESS)
    connect.wait(rc=SUCCESS)
    peers.append(newcomer)
    loops = [start_loop(peer, bit) for bit, peer in enumerate(peers)]
    poll(lambda: all(loop.steps for loop in loops), "the first steps")
    parts = browser.shows(peers="trainer-5 [0-9a-f]{8} . (working|waiting|slow)")
    check("newcomer" not in parts["peers"], f"peers: {parts}")
    browser.picture("dark", DARK)


# Names the elements that are wider than the section around them.
OVERLAPPING = """[...document.querySelectorAll('section *')].filter(e => e.getClientRects().length &&
e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right + 1)
.map(e => e.tagName + ' ' + e.closest('section').id + ' ' + e.textContent.slice(0, 40)).join('; ')"""


def pictures(visitor, size, folder):
    """Takes pictures of the page, wide and on a phone, light and dark. Nothing may be wider than the window."""
    for width, height in ((1400, 1000), (390, 844)):
        for scheme in ("light", "dark"):
            visitor.resizes(width, height, scheme)
            visitor.does("scrollTo(0, 0); draw()")
            wide = visitor.does("document.scrollingElement.scrollWidth")
            words = f"{size} peers: the page is {wide} px wide in a window of {width} px"
            check(wide <= width, f"{words}: {visitor.does(OVERLAPPING)}")
            equal(visitor.does(OVERLAPPING), "", f"{size} peers, {width} px: elements that leave their section")
            path = os.path.join(folder, f"{size}-{scheme}-{width}.png")
            visitor.takes(path)
            check(os.path.getsize(path) > 20000, f"{path} is nearly empty")


def shown(visitor, part):
    return re.sub(r"\s+", " ", visitor.does(f"document.getElementById('{part}').innerText"))


def works_the_table(visitor):
    """Sorts, filters, turns pages and selects, with the keys as well."""
    first = "document.querySelector('#list tbody tr').innerText"
    check("fra-gpu-007" in visitor.does(first), f"the worst is first: {visitor.does(first)}")
    visitor.does("document.querySelector('[data-key=\"peer\"]').click()")
    check("<b>nobody</b>&amp;" in visitor.does(first), f"a name is text: {visitor.does(first)}")
    equal(visitor.does("document.querySelectorAll('b').length && [...document.querySelectorAll('b')]"
                       ".filter(b => b.textContent === 'nobody').length"), 0, "elements made of a name")
    visitor.does("document.querySelector('[data-key=\"peer\"]').click()")
    check("sin-gpu" in visitor.does(first), f"descending: {visitor.does(first)}")
    check("1 to 25 of" in shown(visitor, "pages"), shown(visitor, "pages"))
    visitor.presses("n")
    check("26 to 50 of" in shown(visitor, "pages"), shown(visitor, "pages"))
    visitor.presses("p")
    visitor.presses("/")
    visitor.types_text("ams-gpu-014")
    equal(visitor.does("document.querySelectorAll('#list tbody tr').length"), 1, "peers of this name")
    visitor.does("document.querySelector('#list tbody tr').click()")
    check("next in the ring ams-gpu-015" in shown(visitor, "detail"), shown(visitor, "detail"))
    visitor.presses("Escape")
    check(visitor.does("document.getElementById('detail').hidden && filter === ''"), "Esc")
    visitor.does("document.querySelector('[data-level=\"slow\"]').click()")
    equal(visitor.does("document.querySelectorAll('#list tbody tr').length"), 3, "slow peers")
    check("working" not in shown(visitor, "list"), "a peer with a verdict is shown as sound")
    visitor.does("document.activeElement.blur()")
    visitor.presses("Escape")
    visitor.does("document.querySelector('#grid button').focus()")
    visitor.presses("ArrowRight")
    check("fra-gpu-001: working" in shown(visitor, "hint"), shown(visitor, "hint"))


def loses_the_master(visitor, server):
    """The page says since when there is no answer, and continues when the master is back with another history."""
    server.silent = True
    visitor.sees("state", "does not answer since [0-9:]{8}")
    visitor.sees("problems", "The master does not answer.*No answer since [0-9:]{8}")
    with server.lock:
        server.invented.does("forget")
        server.invented.does("churn")
    server.silent = False
    visitor.sees("state", "^live")
    check("does not answer" not in shown(visitor, "problems"), shown(visitor, "problems"))
    visitor.does("known.revision = 'nonsense'; 0")  # refused, and the page begins again
    visitor.sees("state", "^live")
    poll(lambda: visitor.does("known.revision") not in ("nonsense", None), "a new beginning")


def agrees(visitor, server):
    """The page has the same state as the master."""
    with server.lock:
        server.passes = False
    visitor.does("poll().then(() => { window.over = known.revision; }); 0")
    poll(lambda: visitor.does("window.over"), "an answer")
    mine = json.loads(visitor.does("JSON.stringify({...known.head, ...known.lists, peers: [...known.peers.values()]})"))
    full = server.invented.full()
    for peer in mine["peers"]:
        for key in ("level", "word"):
            del peer[key]
    equal(sorted(mine), sorted(full), "keys")
    for key, value in full.items():
        check(mine[key] == value, f"{key} differs")
    with server.lock:
        server.passes = True


def update_ms(visitor):
    """Returns the median of 20 updates: an answer about a second is added, and all parts are drawn and laid out."""
    visitor.does("""window.taken = []; (async () => { for (let i = 0; i < 20; i++) {
        const answer = await (await fetch('status.json?since=' + known.revision)).json();
        const begin = performance.now();
        apply(answer); draw(); document.body.offsetHeight;
        window.taken.push(performance.now() - begin);
    } window.done = true; })(); 0""")
    poll(lambda: visitor.does("window.done"), "20 updates")
    return sorted(visitor.does("window.taken"))[10]


def test_slow_browser_sizes(run):
    """The page of invented runs of 5, 66 and 1,000 peers: pictures (E2E_PICTURES keeps them), names as text, states,
    filter, pages, keys, and a restart of the master."""
    folder = os.environ.get("E2E_PICTURES") or tempfile.mkdtemp()
    for size in (5, 66, 1000):
        server = Server(run, size)
        visitor = Visitor(run, f"http://127.0.0.1:{server.server_port}/")
        visitor.sees("state", "live")
        pictures(visitor, size, folder)
        visitor.resizes(1400, 1000, "light")
        for color in ("last seen", "steps behind", "rate to next", "round trip", "state"):
            visitor.does(f"color = '{color}'; draw(); 0")
            check(color == "state" or shown(visitor, "grid") != "" or size == 1000, f"no grid by {color}")
        agrees(visitor, server)
        if size == 66:
            works_the_table(visitor)
            loses_the_master(visitor, server)
        visitor.leave()


def figure_browser_update(run):
    """Time of an update of the page at 5, 66 and 1,000 peers."""
    for size in (5, 66, 1000):
        server = Server(run, size)
        visitor = Visitor(run, f"http://127.0.0.1:{server.server_port}/")
        visitor.sees("state", "live")
        visitor.resizes(1400, 1000, "light")
        visitor.does("clearTimeout(timer); window.poll = () => {}; 0")
        harness.figure(f"ms of an update of the page at {size} peers", update_ms(visitor), "ms")
        visitor.leave()


harness.main()
