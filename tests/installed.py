"""The Python package as if it were installed, for tests that run it from the sources: what other packages find in the
metadata of a distribution, such as the backend that `import torch` looks for."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def metadata(folder):
    """Writes it; the folder then belongs on PYTHONPATH. The entry points are those of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sections = re.findall(r'^\[project\.entry-points\."([^"]+)"\]\n((?:\S+ = "[^"]+"\n)+)', text, re.MULTILINE)
    assert sections, "pyproject.toml has no entry points"
    info = pathlib.Path(folder) / "pccl_peers-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pccl-peers\nVersion: 0\n", encoding="utf-8")
    lines = "".join(f"[{group}]\n" + entries.replace('"', "") for group, entries in sections)
    (info / "entry_points.txt").write_text(lines, encoding="utf-8")
    return folder
