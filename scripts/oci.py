#!/usr/bin/env python3
"""Makes a container image of an unpacked release, or unpacks one, without a container engine.

usage: oci.py pack RELEASE PACKAGES FILE   an image of RELEASE/bin/hikyaku, as an OCI image layout in a tar
       oci.py unpack FILE FOLDER           the image's root, each part checked by its digest

PACKAGES is a folder of Debian packages: the libraries of the program, and certificate authorities.
The same files, SOURCE_DATE_EPOCH and Python give the same image.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HERE = Path(__file__).parent
# Of a user whom no system has. Kubernetes' `runAsNonRoot` wants a number.
USER = 65532
# What no program of the image reads.
LEFT_OUT = (
    "usr/share/bug/", "usr/share/doc-base/", "usr/share/info/", "usr/share/lintian/", "usr/share/locale/",
    "usr/share/man/", "usr/share/base-files/", "etc/update-motd.d/", "usr/sbin/",
)  # fmt: skip
# Modules of character sets, which are for iconv.
GCONV = "/gconv/"
AUTHORITIES = "usr/share/ca-certificates/"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class Tree:
    """Files of a layer, by their paths."""

    def __init__(self, date):
        self.date = date
        self.entries = {}

    def add(self, info, content=b""):
        info.mtime = self.date
        info.uname = info.gname = ""
        info.pax_headers = {}
        self.entries[info.name] = (info, content)

    def folder(self, path, mode=0o755, user=0):
        info = tarfile.TarInfo(path)
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, user, user
        self.add(info)

    def file(self, path, content, mode=0o644):
        for parent in reversed(Path(path).parents[:-1]):
            if str(parent) not in self.entries:
                self.folder(str(parent))
        info = tarfile.TarInfo(path)
        info.size, info.mode = len(content), mode
        self.add(info, content)

    def tar(self):
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(self.entries):
                info, content = self.entries[path]
                tar.addfile(info, io.BytesIO(content))
        return whole.getvalue()


def is_left_out(path):
    return (
        path.startswith(LEFT_OUT)
        or GCONV in path
        or (path.startswith("usr/share/doc/") and path.count("/") > 3 and not path.endswith("/copyright"))
    )


def system(packages, date):
    """The layer of libraries: what is in the packages, without their scripts."""
    tree = Tree(date)
    authorities = []
    for package in sorted(packages.glob("*.deb")):
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for info in tar:
                info.name = info.name.removeprefix("./").rstrip("/")
                content = tar.extractfile(info).read() if info.isfile() else b""
                if info.name.startswith(AUTHORITIES) and info.isfile():
                    authorities.append((info.name, content))
                elif info.name not in ("", ".") and not is_left_out(info.name + "/" * info.isdir()):
                    tree.add(info, content)
    assert authorities, "no package has certificate authorities"
    bundle = b"".join(content for _, content in sorted(authorities))
    tree.file("etc/ssl/certs/ca-certificates.crt", bundle)
    tree.file("etc/passwd", f"root:x:0:0::/:/none\nhikyaku:x:{USER}:{USER}::/:/none\n".encode())
    tree.file("etc/group", f"root:x:0:\nhikyaku:x:{USER}:\n".encode())
    tree.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    tree.folder("tmp", 0o1777)
    for path in ("dev", "proc", "sys"):
        tree.folder(path)
    return tree


def program(release, date):
    """The layer of the program, its configuration and a first page."""
    tree = Tree(date)
    tree.file("usr/bin/hikyaku", (release / "bin/hikyaku").read_bytes(), 0o755)
    tree.file("etc/hikyaku/edge.toml", (HERE / "oci/edge.toml").read_bytes())
    tree.file("srv/www/index.html", (HERE / "deb/hikyaku/welcome.html").read_bytes())
    for name in ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt"):
        tree.file(f"usr/share/doc/hikyaku/{name}", (release / name).read_bytes())
    tree.folder("var")
    tree.folder("var/lib")
    tree.folder("var/lib/hikyaku", 0o750, USER)
    return tree


class Layout:
    """An OCI image layout."""

    def __init__(self, date):
        self.tree = Tree(date)
        self.tree.file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def blob(self, media_type, content):
        digest = hashlib.sha256(content).hexdigest()
        self.tree.file(f"blobs/sha256/{digest}", content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, media_type, value):
        return self.blob(media_type, as_json(value))


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def pack(release, packages, file):
    date = int(os.environ["SOURCE_DATE_EPOCH"])
    arch = output("dpkg", "--print-architecture")
    version = output(release / "bin/hikyaku", "--version").split()[1]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date))
    layout = Layout(date)
    layers, history, diffs = [], [], []
    for what, tree in (("libraries of Debian", system(packages, date)), ("hikyaku", program(release, date))):
        tar = tree.tar()
        diffs.append(f"sha256:{hashlib.sha256(tar).hexdigest()}")
        layers.append(layout.blob(LAYER, gzip.compress(tar, compresslevel=9, mtime=0)))
        history.append({"created": created, "created_by": what})
    labels = {
        "org.opencontainers.image.title": "hikyaku",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.source": "https://github.com/hikyaku/hikyaku",
    }
    config = {
        "created": created,
        "architecture": arch,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8443/tcp": {}, "8443/udp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/hikyaku"],
            "Cmd": ["serve", "--config", "/etc/hikyaku/edge.toml"],
            "Volumes": {"/var/lib/hikyaku": {}},
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": diffs},
        "history": history,
    }
    manifest = layout.json(
        MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": layout.json(CONFIG, config),
            "layers": layers,
            "annotations": labels,
        },
    )
    manifest["platform"] = {"architecture": arch, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    layout.tree.file("index.json", as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]}))
    file.write_bytes(layout.tree.tar())


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def unpack(file, folder):
    with tarfile.open(file) as layout:

        def read(name):
            return layout.extractfile(name).read()

        def blob(of):
            content = read(f"blobs/{of['digest'].replace(':', '/')}")
            found = f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert (found, len(content)) == (of["digest"], of["size"]), f"{of} is {found}"
            return content

        [manifest] = json.loads(read("index.json"))["manifests"]
        manifest = json.loads(blob(manifest))
        config = json.loads(blob(manifest["config"]))
        for layer, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            tar = gzip.decompress(blob(layer))
            assert f"sha256:{hashlib.sha256(tar).hexdigest()}" == diff, f"{layer} is not {diff}"
            with tarfile.open(fileobj=io.BytesIO(tar)) as files:
                files.extractall(folder)
    print(json.dumps(config["config"], indent=1))


def main(arguments):
    match arguments:
        case ["pack", release, packages, file]:
            pack(Path(release), Path(packages), Path(file))
        case ["unpack", file, folder]:
            unpack(Path(file), Path(folder))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
