"""Writes the comments of sources and the texts of experiments as Markdown, for vale.

usage: comments.py OUT FILE...    writes OUT/FILE.md for each file

Each comment keeps its line, so that vale's line numbers are those of the source.
Vale's own parsers for Rust and Go know no paragraphs, on which some rules depend.
"""

import pathlib
import re
import sys

# Comments, and the literals that may hold what only looks like one.
TOKENS = {
    ".rs": re.compile(
        r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
        r'''|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)'''
        r'''|"(?:\\.|[^"\\])*"'''
        r"""|'(?:\\.[^'\n]*|[^\\'\n])'""",
        re.DOTALL | re.VERBOSE,
    ),
    ".go": re.compile(
        r"""(?P<comment>//[^\n]*|/\*.*?\*/)|`[^`]*`|"(?:\\.|[^"\\\n])*"|'(?:\\.[^'\n]*|[^\\'\n])'""",
        re.DOTALL,
    ),
    ".toml": re.compile(
        r"""(?P<comment>#[^\n]*)|^(?:title|question|text|paper|reason) = "(?P<text>(?:\\.|[^"\\])*)\""""
        r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""",
        re.MULTILINE,
    ),
}

# Lines for tools: `//go:build`, `//nolint:...`.
DIRECTIVE = re.compile(r"//[a-z]+:")

MARKER = re.compile(r"(///|//!|//|/\*\*|/\*!|/\*|#)(.*)", re.DOTALL)


def comments(text, tokens):
    """Yields each line of a comment or text: its index, kind and content."""
    for token in tokens.finditer(text):
        if "text" in tokens.groupindex and token["text"] is not None:
            yield text.count("\n", 0, token.start("text")), "after code", token["text"]
            continue
        comment = token["comment"]
        if comment is None or DIRECTIVE.match(comment):
            continue
        line = text.count("\n", 0, token.start())
        before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        kind, body = MARKER.match(comment).groups()
        if before.strip():
            kind = "after code"
        for offset, part in enumerate(body.removesuffix("*/").split("\n")):
            yield line + offset, kind, re.sub(r"^ ?", "", part).rstrip()


def markdown(text, tokens):
    """The comments of a source. A new kind of comment begins a new item."""
    lines = [""] * (text.count("\n") + 1)
    last = (-2, None)
    for line, kind, part in comments(text, tokens):
        follows = last[0] == line - 1
        if part and (kind == "after code" or (follows and last[1] != kind)):
            part = f"- {part}"
        lines[line] = part
        last = (line, kind)
    return "\n".join(lines)


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        file = out / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        source = pathlib.Path(name)
        file.write_text(markdown(source.read_text(), TOKENS[source.suffix]))


main()
