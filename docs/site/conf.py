"""Sphinx's configuration of the documentation site. scripts/docs prepares the pages and builds it."""
import os
import pathlib
import re

_root = pathlib.Path(__file__).resolve().parents[2]
_header = (_root / "include/pccl.h").read_text(encoding="utf-8")
_version = ".".join(re.findall(r"^#define PCCL_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", _header, re.M))

project = "PCCL"
author = "PCCL contributors"
project_copyright = "2026, PCCL contributors"
release = os.environ.get("PCCL_DOCS_NAME") or _version

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 6
# Syntax that only MyST knows: the pages are written for a forge.
myst_disable_syntax = ["myst_line_comment", "myst_target", "myst_block_break", "myst_role"]
smartquotes = False  # "--listen" keeps its dashes

html_theme = "furo"
html_title = f"PCCL {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"

# scripts/pages publishes several versions: the page that lists them, relative to this one's start.
templates_path = ["templates"]
html_context = {"versions_page": os.environ.get("PCCL_DOCS_VERSIONS", "")}
html_sidebars = {"**": [f"sidebar/{part}.html" for part in (
    "brand", "versions", "search", "scroll-start", "navigation", "scroll-end")]}
