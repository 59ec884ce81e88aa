"""The tidy test, tested: in a tree that is clean each planted fault is found, by its file and its
message."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import layers
import ratchets
import tidy

COMPILER = os.environ.get("CC", "cc")
LEFT_OVER = "TO" + "DO"

CLEAN = {
    "README.md": "# Title\n\nSee [hacking](docs/HACKING.md#one-task) and [here](#title), `[not](a link)`.\n",
    "docs/HACKING.md": "# One task\n\n```\n[also](not/a/link)\n```\n",
    "include/pccl.h": "PCCL_EXPORT int pcclInit(void);\n",
    "include/ccoip.h": "",
    "include/ccoip_inet.h": "",
    "src/core/base.h": "#ifndef PCCL_CORE_BASE_H\n#define PCCL_CORE_BASE_H\n#include <stddef.h>\n#endif\n",
    "src/core/base.c": '#include "core/base.h"\n\nstatic const char *const names[] = {"sprintf(", "b"};\n'
                       "const char *pccl_name(int i);\nconst char *pccl_name(int i) { return names[i]; }\n",
    "src/wire/wire.c": '#include "core/base.h"\n\n#include <string.h>\n\nconst char *pccl_name(int i);\n'
                       "void pccl_copy(char *to);\n/* never strcpy(; base.c, core/base.h and pccl_name\n"
                       " * are there, linux/tcp.h is not ours, pccl_* and PCCL_X_ are families */\n"
                       "void pccl_copy(char *to) { memcpy(to, pccl_name(0), 2); }\n",
    "src/api/api.c": '#include "pccl.h"\n#include "wire/wire.h"\n#include <uv.h>\n',
    "tests/e2e/main.c": "int main(void) { sleep(1); printf(); }\n",
}


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="pccl-tidy-"))
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in CLEAN.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")


class Rules(Tree):
    def planted(self, path, text, words, where=None):
        """A file with this text gives exactly one finding, in it, with these words."""
        self.write(path, text)
        findings = tidy.rules(self.root)
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(where or path + ":"), findings[0])
        self.assertIn(words, findings[0])

    def test_clean_tree(self):
        self.assertEqual(tidy.rules(self.root), [])

    def test_arrow_up(self):
        self.planted("src/wire/a.c", '#include "core/base.h"\n#include "master/master.h"\n', "may not include master",
                     "src/wire/a.c:2:")

    def test_arrow_pure_to_net(self):
        self.planted("src/master/a.c", '#include "net/loop.h"\n', "may not include net")

    def test_arrow_net_to_api(self):
        self.planted("src/net/a.c", '#include "api/api.h"\n', "may not include api")

    def test_arrow_core_alone(self):
        self.planted("src/core/a.c", '  #  include "wire/wire.h"\n', "core may not include wire")

    def test_arrow_kernels_alone(self):
        self.planted("src/kernels/a.c", '#include "topology/ring.h"\n', "kernels may not include topology")

    def test_unknown_module(self):
        self.planted("src/extra/a.c", "\n", "no place in the arrows")

    def test_system_header_in_pure(self):
        self.planted("src/peer/a.c", "#include <stdlib.h>\n", "pure module peer includes <stdlib.h>")

    def test_public_header_below_drive(self):
        self.planted("src/peer/a.c", '#include "pccl.h"\n', "public headers only in api, config, drive, log")

    def test_system_outside_os(self):
        self.planted("src/net/a.c", "#include <unistd.h>\n", "<unistd.h> is for src/os/ and tools/system/")
        self.planted("src/net/a.c", "#if X && defined(__linux__)\n#endif\n", "__linux__ tests for a system")
        self.planted("src/net/a.c", "void f(struct sockaddr_in *x);\n", "is a type of some systems")
        self.planted("src/net/a.c", '#include "os/native.h"\n', "is not a contract")

    def test_system_in_its_places(self):
        text = "#include <unistd.h>\n#ifdef _WIN32\n#endif\nvoid f(struct sockaddr_in *x);\n"
        self.write("src/os/a_posix.c", text)
        self.write("tools/system/a_posix.c", text)
        self.write("tests/unit/test_a.c", text)
        self.assertEqual(tidy.rules(self.root), [])

    def test_guard(self):
        self.planted("src/core/text.h", "#ifndef TEXT_H\n#define TEXT_H\n#endif\n", "PCCL_CORE_TEXT_H")

    def test_banned_everywhere(self):
        for call in ("sprintf", "strcpy", "strcat", "gets", "atoi", "rand", "system"):
            with self.subTest(call):
                self.planted("tools/a.c", f"int x;\nint y = {call} (x);\n", call + ":", "tools/a.c:2:")

    def test_sleep_in_unit_test(self):
        self.planted("tests/unit/test_a.c", "void f(void) { usleep(1); }\n", "usleep")

    def test_sleep_in_simulator(self):
        self.planted("tests/sim/a.c", "void f(void) { sleep(1); }\n", "sleep")

    def test_printf_in_library(self):
        self.planted("src/drive/a.c", 'void f(void) { printf("x"); }\n', "standard output")

    def test_exit_in_library(self):
        self.planted("src/net/a.c", "void f(void) { exit(1); }\n", "never ends its host")

    def test_a_public_call_that_fails_in_its_own_way(self):
        self.planted("src/api/a.c", "int f(void) { return pccl_errors_fail(0); }\n", "one way to fail")

    def test_members_and_longer_names_are_no_calls(self):
        self.write("src/net/a.c", "void f(void) { x->exit(1); a.system(2); my_printf(3); }\n")
        self.assertEqual(tidy.rules(self.root), [])

    def test_long_line(self):
        self.planted("src/net/a.c", "int " + "x" * 120 + ";\n", "columns")

    def test_trailing_space(self):
        self.planted("src/net/a.c", "int x; \n", "white space")

    def test_long_file(self):
        self.planted("tests/unit/test_a.c", "int x;\n" * 1001, "1001 lines")

    def test_long_function(self):
        self.planted("src/net/a.c", "static void f(void)\n{\n" + "    x();\n" * 100 + "}\n", "f has 103 lines")

    def test_a_function_of_one_line_ends_there(self):
        self.write("src/net/a.c", "int f(void) { return 1; }\n" + "int a;\n" * 100 + "struct s {\n    int a;\n};\n")
        self.assertEqual(tidy.rules(self.root), [])

    def test_judged_time(self):
        for line in ('within(late(results), 0, 1000, "ms until all knew")', 'within(rate, 9, 11, f"Mbit/s of {way}")',
                     'within(result["at"] - since_us, 0, 10, "until all knew")', "check(now_us() - since_us < 5, 'slow')",
                     "check(5 > (peer.cpu_s() - before) / 2, 'dear')", "assert 0 <= time.monotonic() - begin < SOON",
                     "check(took_ms < 3, 'slow')", "check(row['slowest_mbit'] < 3, 'fast')"):
            with self.subTest(line):
                self.planted("tests/e2e/test_a.py", f"x = 1\n{line}\n", "busy machine", "tests/e2e/test_a.py:2:")

    def test_what_is_true_on_any_machine(self):
        self.write("tests/e2e/test_a.py", 'check(now_us() - since_us >= 200000, "early")\nassert 2 < took\n'
                                          'assert time.monotonic() < end\nwithin(grown, 0, 1024, "KiB")\n'
                                          'figure("ms until all knew", now_us() - since_us, "ms")\n')
        self.write("bench/a.py", "assert time.monotonic() - begin < 3\n")
        self.assertEqual(tidy.rules(self.root), [])

    def test_left_over(self):
        self.planted("scripts/tool", f"# {LEFT_OVER}: later\n", LEFT_OVER)

    def test_machine_path(self):
        self.planted("scripts/tool", "cd " + "/ho" + "me/someone/x\n", "somebody's machine")

    def test_comment_names_no_file(self):
        self.planted("src/core/a.c", "int a;\n/* As in\n * wire/other.c. */\n", "names wire/other.c", "src/core/a.c:3:")

    def test_comment_names_no_neighbor(self):
        self.planted("src/core/a.c", "int a; // other.h knows\n", "names other.h")

    def test_comment_names_no_function(self):
        self.planted("src/core/a.c", "/* pccl_name, but not pccl_removed. */\nint a;\n", "names pccl_removed")

    def test_dead_link(self):
        self.planted("docs/A.md", "text\n[x](B.md)\n", "dead link B.md", "docs/A.md:2:")

    def test_dead_anchor(self):
        self.planted("docs/A.md", "[x](HACKING.md#another-task)\n", "no such heading")

    def test_dead_name(self):
        self.write("docs/B.md", "[x](../include/pccl.h#pcclInit)\n")
        self.planted("docs/A.md", "[x](../include/pccl.h#pcclIni)\n", "no such name")


    def test_citations(self):
        self.write("docs/PROTOCOL.md", "# Rules\n\n## 6. Decisions\n\n### 6.1 Commit\n\nThen (6.1; 6 and more).\n")
        self.write("src/core/a.c", "/* PROTOCOL 6. And (PROTOCOL\n * 6.1, 6), docs/PROTOCOL rules 6 */\n")
        self.assertEqual(tidy.rules(self.root), [])
        self.planted("src/core/a.c", "/* (PROTOCOL 6.1,\n * 6.2) */\n", "cites PROTOCOL 6.2, which is not there")
        self.planted("src/core/a.c", "/* as PROTOCOL F6 says */\n", "by the number of a section")
        self.write("src/core/a.c", "\n")
        self.planted("docs/A.md", "[PROTOCOL.md](PROTOCOL.md), 6 and 7\n", "cites PROTOCOL 7")
        self.write("docs/A.md", "\n")
        self.planted("docs/PROTOCOL.md", "## 6. Decisions\n\nAs said (6, 6.3).\n", "cites PROTOCOL 6.3")

    def test_parameter_without_manual(self):
        self.write("src/config/params.h", '#ifndef PCCL_CONFIG_PARAMS_H\n#define PCCL_CONFIG_PARAMS_H\n'
                                         'X(MASTER, U32, a_ms, "PCCL_A_MS", "5", 1, 9, "help")\n#endif\n')
        self.planted("man/pccl.7", ".TP\n.B PCCL_A_MS\nHelp.\nDefault 4, range 1 to 9.\n", "PCCL_A_MS")
        self.write("man/pccl.7", ".TP\n.B PCCL_A_MS\nHelp.\nDefault 5, range 1 to 9.\n")
        self.assertEqual(tidy.rules(self.root), [])


class Compiled(Tree):
    def compile(self, modules=tuple(tidy.PURE)):
        """The objects of these modules of the tree, as the build makes them."""
        objects = []
        for source in sorted(self.root.glob("src/*/*.c")):
            module = source.parent.name
            if module in modules:
                target = self.root / "objects" / module / (source.name + ".o")
                target.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([COMPILER, "-std=gnu11", "-w", "-O2", "-fPIC", "-I", self.root / "src", "-c", source,
                                "-o", target], check=True)
                objects.append(str(target))
        return objects


class Objects(Compiled):
    def planted(self, path, text, words):
        self.write(path, text)
        findings = list(tidy.purity("nm", self.compile()))
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(path + ":"), findings[0])
        self.assertIn(words, findings[0])

    def test_clean_tree(self):
        self.assertEqual(list(tidy.purity("nm", self.compile())), [])

    def test_allocation(self):
        self.planted("src/master/a.c", "void *malloc(unsigned long);\nvoid *f(void) { return malloc(3); }\n", "malloc")

    def test_clock(self):
        self.planted("src/peer/a.c", "long time(long *);\nlong f(void) { return time(0); }\n", "refers to time")

    def test_undeclared_arrow(self):
        self.planted("src/core/b.c", "void pccl_copy(char *);\nvoid f(char *p) { pccl_copy(p); }\n", "pccl_copy")

    def test_static_variable(self):
        self.planted("src/wire/a.c", "static int calls;\nint f(void) { return ++calls; }\n", "keeps state")

    def test_global_variable(self):
        self.planted("src/wire/a.c", "int pccl_level = 3;\n", "keeps state")

    def test_constant_with_addresses(self):
        self.write("src/wire/a.c", "static const char *const words[] = {\"a\", \"b\"};\n"
                                   "const char *f(int i) { return words[i]; }\n")
        self.assertEqual(list(tidy.purity("nm", self.compile())), [])

    def test_table_that_can_change(self):
        self.planted("src/wire/a.c", "const char *pccl_words[] = {\"a\", \"b\"};\n", "keeps state")

    def test_not_pure(self):
        self.assertEqual(len(list(tidy.purity("nm", ["objects/net/a.c.o"]))), 1)


class Layers(Compiled):
    def planted(self, path, text, words):
        """All findings are in this file and have these words; returns their number. src/net has above.c and below.c."""
        for file in ("above.c", "below.c"):
            if not (self.root / "src/net" / file).exists():
                self.write("src/net/" + file, "int x;\n")
        self.write(path, text)
        self.write(layers.ORDER, "[net]\nbelow # is first\nabove\n")
        findings = list(layers.check(self.root, "nm", self.compile(["net"])))
        self.assertEqual([finding for finding in findings if finding.startswith(path) and words in finding], findings)
        return len(findings)

    def test_downwards(self):
        self.write("src/net/below.c", "void f(void) {}\n")
        self.assertEqual(self.planted("src/net/above.c", "void f(void);\nvoid g(void) { f(); }\n", "no finding"), 0)

    def test_upwards(self):
        self.write("src/net/above.c", "void g(void) {}\n")
        up = ("src/net/below.c", "void g(void);\nvoid f(void) { g(); }\n", "calls g of src/net/above.c, which is above")
        self.assertEqual(self.planted(*up), 1)
        self.write(layers.KNOWN, '{"cycles": {"src/net/above.c": 1, "src/net/below.c": 1}}')
        self.assertEqual(self.planted(*up), 0)

    def test_upwards_through_a_pointer(self):
        hooks = "struct hooks {\n    void (*woken)(int);\n};\n"
        setter = "static void wake(int a) {}\nconst struct hooks hooks = {.woken = wake};\n"
        self.write("src/net/above.c", hooks + setter)
        up = ("src/net/below.c", hooks + "void f(struct hooks *h) { h->woken(1); }\n", "calls woken of src/net/above.c")
        self.assertEqual(self.planted(*up), 1)
        self.write("src/api/b.c", setter)  # a second value
        self.assertEqual(self.planted(*up), 0)

    def test_no_place(self):
        self.assertEqual(self.planted("src/net/other.c", "int y;\n", "has no place in"), 1)
        self.write(layers.ORDER, "[net]\nbelow above other gone\n")
        findings = list(layers.check(self.root, "nm", self.compile(["net"])))
        self.assertEqual(findings, [f"{layers.ORDER}:1: names src/net/gone.c, which is not there"])

    def test_rooms(self):
        for name in ("links_internal", "links_state", "links"):
            self.write(f"src/master/{name}.h", "")
        self.write("src/master/state.h", '#include "master/links_state.h"\n')
        self.write("src/master/links_wanted.c", '#include "master/links_internal.h"\n')
        self.write("src/master/rounds.c", '#include "master/links.h"\n')
        self.assertEqual(list(layers.check_rooms(self.root)), [])
        self.write("src/master/rounds.c", '#include "master/links.h"\n#include "master/links_internal.h"\n')
        self.assertEqual(list(layers.check_rooms(self.root)), [
            "src/master/rounds.c:2: master/links_internal.h is inside the room links: include master/links.h"])
        self.write("src/master/rounds.c", '#include "master/links_state.h"\n')
        self.assertEqual(len(list(layers.check_rooms(self.root))), 1)

    def test_header_in_a_circle(self):
        self.assertEqual(self.planted("src/net/a.h", '#include "net/a.h"\n', "includes itself"), 1)


class Ratchets(Compiled):
    def compare(self, known=None, modules=()):
        """(values, findings) of the tree with the objects of these modules, compared with these values."""
        values, offenders = ratchets.measure(ratchets.read(self.root, "nm", self.compile(modules)))
        values = {**values, **ratchets.recorded({}, values, ())}
        return values, list(ratchets.compare(known or values, values, offenders))

    def test_each(self):
        self.write("src/net/b.c", "void f(void);\nvoid g(void) { f(); }\n")
        self.write("python/pccl/b.py", "import pccl.a\n")
        known, findings = self.compare()
        self.assertEqual(findings, [])
        block = "".join(f"int {name};\n" for name in "abcdef")
        flags = "struct a {\n    bool b, c, d;\n    bool e;\n    unsigned f : 1;\n};\n"
        more = "typedef struct {\n    bool b; bool c; void (*d)(bool);\n    atomic_bool e;\n" \
               "    uint8_t f : 1, g : 1;\n} h;\n"
        for path, text, first, new in (
                ("src/net/a.c", "void g(void);\nvoid f(void) { g(); }\n", "src/net:1: cycles: 2 files in cycles",
                 "in a cycle: src/net/a.c -> src/net/b.c -> src/net/a.c"),
                ("python/pccl/a.py", "def f():\n    from . import b\n", "python/pccl:1: cycles: 2 files in cycles",
                 "python/pccl/a.py -> python/pccl/b.py"),
                ("src/net/a.h", flags, "src/net:1: flags: 1 structs with", "a.h:1: struct a has 5 flags"),
                ("src/net/a.h", more, "src/net:1: flags: 1 structs with", "a.h:1: struct h has 5 flags"),
                ("src/net/a.h", block + "int x;\n" + block, "src/net:1: duplicates: 1 pairs of",
                 "a.h:8: 6 lines and more are those at src/net/a.h:1"),
                ("src/net/a.h", "/* What the caller wants. */\n", "src/net:1: marks: 1 comments or",
                 "a.h:1: 'What the caller wants.'"),
                ("tools/a.py", 'def f():\n    """x.\n    That of whoever asks.\n    """\n',
                 "tools:1: marks: 1 comments or",
                 "'That of whoever asks.'"),
                ("README.md", "A page.\n\n```text\nWhat a program prints.\n```\n\n| a | Names of what is sent |\n",
                 "README.md:1: marks: 1 comments or", "README.md:7: 'Names of what is sent'"),
                ("docs/guide/a.md", "It has `what it wants` in code.\n\nWhat if it fails? Who may join it?\n\n* An item.\n* [Nobody\n  waits](b.md) here now.\n",
                 "docs/guide:1: marks: 1 comments or", "a.md:6: 'Nobody waits here now.'"),
                ("man/a.1", ".TP\n.B a\nPrints\n.I what\nit \\- finds.\n.nf\nWhat is not prose.\n.fi\n",
                 "man:1: marks: 1 comments or", "a.1:2: 'a Prints what it - finds.'"),
                ("src/net/a.h", '#define A fail("%s: "\n "nobody knows")\n', "src/net:1: messages: 1 messages with",
                 "a.h:1: '%s: nobody knows'"),
                ("python/pccl/a.py", 'def f(what):\n    """What?"""\n    return f"{what} is no more: what now?"\n',
                 "python/pccl:1: messages: 1 messages with",
                 "a.py:3: ' is no more: what now?'"),
                ("src/net/a.h", "\n" * 601, "src/net/a.h:1: long: 601 lines, at most 600", ""),
                ("src/net/a.h", "\n" * 99, "src/net:1: lines: 101 lines, at most 100", ""),
                ("src/net/a.h", "int a;\n" * 99,
                 "src/net:1: code: 101 lines without comments and blanks, at most 100", "")):
            with self.subTest(first):
                self.write(path, text)
                _, findings = self.compare(known, ["net"] if path.endswith(".c") else ())
                self.assertEqual(sum(finding.startswith(first) for finding in findings), 1, findings)
                self.assertIn(new, "\n".join(findings))
                (self.root / path).unlink()

    def test_only_what_is_new_is_named(self):
        self.write("src/net/a.h", "/* What is old here */\n/* What goes away here */\n")
        known, _ = self.compare()
        self.write("src/net/a.h", "/* What is old here */\n/* What is new here */\n")
        self.assertEqual(self.compare(known)[1], [])
        self.write("src/net/b.h", "/* What is old here */\n")
        self.assertEqual([finding.partition(":")[0].strip() for finding in self.compare(known)[1]],
                         ["src/net", "new", "new"])

    def test_share(self):
        def compare(known, single, both):
            """src/net has functions with one user and with two."""
            self.write("src/net/a.c", "".join(f"void f{i}(void) {{}}\n" for i in range(single + both)))
            for file, calls in (("b", range(single + both)), ("c", range(single, single + both))):
                self.write(f"src/net/{file}.c", "".join(f"void f{i}(void);\n" for i in calls) +
                           f"void {file}(void) {{ {' '.join(f'f{i}();' for i in calls)} }}\n")
            return worse(known)

        def worse(known):
            return [finding for finding in self.compare(known, ["net", "log"])[1] if "single_users: " in finding]
        compare(None, 4, 6)
        known, _ = self.compare(None, ["net"])
        self.assertEqual(compare(known, 5, 6), [])  # room for one
        self.assertEqual(compare(known, 6, 6),
                         ["src/net:1: single_users: 43 % of external symbols have one user, at most 39"])
        self.write("tests/unit/a.c", "void f1(void);\nint x = f1();\n")
        self.assertEqual(compare(known, 6, 6), [])  # a test is a user
        compare(known, 4, 6)
        (self.root / "src/net/c.c").unlink()
        self.assertEqual(worse(known), [])  # a removal is not worse
        compare(known, 4, 6)
        self.write("src/log/b.c", "void f0(void);\nvoid i(void);\nvoid h(void) { f0(); i(); }\n")
        for functions, found in (("void i(void) {}\nint j, k, l, m;\n", 0), ("void i(void) {}\n", 1)):
            self.write("src/log/a.c", functions)  # a new folder below the average, and above it
            self.assertEqual(len(worse(known)), found)

    def test_recording(self):
        recorded, objects = self.root / ratchets.KNOWN, self.root / "all.txt"

        def run(what, *accepted):
            return subprocess.run([sys.executable, "-B", ratchets.__file__, what, "--root", self.root, "--nm", "nm",
                                   "--objects", objects, "--raise", *accepted], stdout=subprocess.DEVNULL,
                                  check=False).returncode
        recorded.parent.mkdir()
        everything = ("lines", "code", "single_users")
        self.assertEqual(run("write", *everything), 1)  # no list of objects
        self.write("all.txt", "")
        self.assertEqual(run("write", *everything), 1)
        self.write("all.txt", "\n".join(self.compile()))
        self.assertEqual([run("check"), run("write"), recorded.exists()], [1, 1, False])
        self.assertEqual([run("write", *everything), run("check"), run("write")], [0, 0, 0])
        before = recorded.read_text()
        self.write("src/wire/a.h", "\n" * 50)
        self.assertEqual([run("check"), run("write"), recorded.read_text()], [0, 0, before])
        self.write("src/wire/a.h", "/* What the caller wants. */\n")
        self.assertEqual([run("write", "lines"), run("write", "lines", "marks"), run("check")], [1, 0, 0])
        (self.root / "src/wire/a.h").unlink()
        self.assertEqual([run("check"), run("write"), recorded.read_text()], [0, 0, before])


class Exports(Tree):
    def library(self, text):
        self.write("library.c", text)
        path = self.root / "libx.so"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-w", self.root / "library.c", "-o", path], check=True)
        return list(tidy.exports(self.root, "nm", str(path)))

    def test_exact(self):
        self.assertEqual(self.library("int pcclInit(void) { return 0; }\n"), [])

    def test_internal_symbol(self):
        findings = self.library("int pcclInit(void) { return 0; }\nint pccl_helper(void) { return 0; }\n")
        self.assertEqual(len(findings), 1)
        self.assertIn("pccl_helper", findings[0])

    def test_missing_symbol(self):
        findings = self.library("static int x;\n")
        self.assertEqual(len(findings), 1)
        self.assertIn("does not export pcclInit", findings[0])


class Current(Tree):
    def test_generated_file(self):
        command = self.root / "print"
        command.write_text("#!/bin/sh\necho generated\n", encoding="utf-8")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        self.assertEqual(len(list(tidy.current(self.root, "docs/X.md", str(command)))), 1)
        self.write("docs/X.md", "generated\n")
        self.assertEqual(list(tidy.current(self.root, "docs/X.md", str(command))), [])
        self.write("docs/X.md", "generated, then changed\n")
        self.assertEqual(len(list(tidy.current(self.root, "docs/X.md", str(command)))), 1)


class Plants(unittest.TestCase):
    def test_bugs_of_chaos_are_found_in_the_sources(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        sys.path.insert(0, str(root / "tests" / "chaos"))
        import planted  # its bugs are planted by nightly tests only
        for bug in planted.BUGS:
            self.assertTrue(planted.audit.planted(root, bug), bug.name)


if __name__ == "__main__":
    unittest.main()
