"""Uploads through hikyaku to an upstream that reads at once, in the network of bench-uploads.sh."""

import http.server
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZE = 20_000_000
HIKYAKU = "target/release/hikyaku"
SERVER = "10.104.121.2"
PORT = 9000
URL = f"https://{SERVER}:8443/"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Reads a body, and answers with its length."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = str(self.read_body()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(length)))
        self.end_headers()
        self.wfile.write(length)

    def read_body(self):
        if "Content-Length" in self.headers:
            return len(self.rfile.read(int(self.headers["Content-Length"])))
        total = 0
        while size := int(self.rfile.readline(), 16):
            total += len(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return total

    def log_message(self, *_):
        pass


def curl(http):
    return ["curl", "-ksS", "--http" + http, "-H", "Expect:", "--data-binary", "@body", URL]


def get(http):
    return [os.path.abspath(HIKYAKU), "get", "--insecure", "--http", http, "--data", "@body", URL]


# Name, command, and the name of the one that it is compared with.
ARMS = [
    ("curl, HTTP/1.1", curl("1.1"), None),
    ("curl, HTTP/2", curl("2"), "curl, HTTP/1.1"),
    ("hikyaku get, HTTP/1.1", get("1.1"), None),
    ("hikyaku get, HTTP/2", get("2"), "hikyaku get, HTTP/1.1"),
    ("hikyaku get, HTTP/3", get("3"), "hikyaku get, HTTP/1.1"),
]


def timed(command, directory):
    begun = time.monotonic()
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.decode()}")
    return time.monotonic() - begun


def measure(rounds, directory):
    times = {name: [] for name, _, _ in ARMS}
    for number in range(rounds):
        turn = number % len(ARMS)
        for name, command, _ in ARMS[turn:] + ARMS[:turn]:
            times[name].append(timed(command, directory))
    print(f"{SIZE} bytes, {rounds} rounds: median (least to most)")
    for name, _, base in ARMS:
        print(f"{name:22} {spread(times[name])} s", end="")
        if base:
            ratios = [one / other for one, other in zip(times[name], times[base])]
            print(f", {spread(ratios)} of {base}", end="")
        print()


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    rounds = int(sys.argv[1])
    inside = ["ip", "netns", "exec", os.environ["NETNS_SERVER"]]
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/body", "wb") as body:
            body.write(os.urandom(SIZE))
        script = [sys.executable, __file__, "upstream"]
        serve = [HIKYAKU, "serve", "--upstream", f"http://127.0.0.1:{PORT}"]
        serve += ["--listen", f"{SERVER}:8443", "--set", "admin.listen=", "--set", "log.access=off"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = [subprocess.Popen([*inside, *each], **quiet) for each in (script, serve)]
        try:
            time.sleep(2)
            measure(rounds, directory)
        finally:
            for process in running:
                process.kill()
                process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "upstream":
        http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Upstream).serve_forever()
    else:
        main()
