#!/usr/bin/env python3
"""Prints the licences of all that is linked into `hikyaku` and `hikyaku-egress`.

usage: third-party.py    (in the repository's root)

Their terms ask that they go with the programs.
"""

import json
import subprocess
import sys
from pathlib import Path

# Beginnings of the names of files that hold terms.
TERMS = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def output(*command, cwd="."):
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates():
    """(name and version, licence, directory) of what `hikyaku` is linked with."""
    host = next(
        line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:")
    )
    metadata = json.loads(
        output("cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={host}")
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    needed = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    found, todo = set(), [id for id, package in packages.items() if package["name"] == "hikyaku"]
    while todo:
        id = todo.pop()
        if id not in found:
            found.add(id)
            todo += needed[id]
    for id in found:
        package = packages[id]
        if package["source"]:
            name = f"{package['name']} {package['version']}"
            yield name, package["license"] or "", Path(package["manifest_path"]).parent


def modules():
    """The same of `hikyaku-egress`: Go has no field for the licence."""
    form = "{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
    lines = output("go", "list", "-deps", "-f", form, "./cmd/hikyaku-egress", cwd="egress")
    for line in set(lines.split("\n")) - {""}:
        name, directory = line.split("\t")
        yield name, "", Path(directory)
    root = output("go", "env", "GOROOT", cwd="egress").strip()
    yield "Go's standard library", "BSD-3-Clause", Path(root)


def texts(directory):
    # One level down are the terms of C libraries that a crate carries.
    for file in sorted([*directory.glob("*"), *directory.glob("*/*")]):
        if file.is_file() and file.name.upper().startswith(TERMS):
            yield file.read_text(errors="replace").strip()


def main():
    for title, parts in (("hikyaku", crates()), ("hikyaku-egress", modules())):
        print(f"Linked into {title}\n")
        # The same text once, after the names of all that it is of.
        holders = {}
        for name, licence, directory in sorted(parts):
            found = list(texts(directory))
            if not found and not licence:
                sys.exit(f"{name}: no licence found in {directory}")
            for text in found or [f"{licence}, as its manifest says"]:
                holders.setdefault(text, []).append(f"{name} ({licence})" if licence else name)
        for text, names in holders.items():
            print("-" * 80, *names, "", text, "", sep="\n")


if __name__ == "__main__":
    main()
