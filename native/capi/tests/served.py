"""Compares the server in Go with `zstn serve`: served.py GO ZSTN FOLDER

FOLDER holds model.safetensors and model.zstn.
"""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

RANGES = [
    None,
    "bytes=0-0",
    "bytes=0-99",
    "bytes=5-1000",
    "bytes=500000-500999",
    "bytes=524287-800000",
    "bytes=1048900-",
    "bytes=-100",
    "bytes=0-99999999",
    "bytes=1048973-",
]


def fetch(url, range_, tag=None):
    request = urllib.request.Request(url)
    if range_:
        request.add_header("Range", range_)
    if tag:
        request.add_header("If-None-Match", tag)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        headers = [answer.headers.get(name) for name in ["Content-Range", "Content-Length"]]
        # The text of an error response may differ between the servers.
        is_content = answer.status in [200, 206]
        body = answer.read() if is_content else b""
        return (answer.status, headers if is_content else [], body), answer.headers.get("ETag")


def main(go, zstn, folder):
    folder = pathlib.Path(folder)
    plain = (folder / "model.safetensors").read_bytes()
    with tempfile.TemporaryDirectory() as served:
        # The folder has no copy of the original, so the servers have to restore it.
        packed = shutil.copy(folder / "model.zstn", served)
        servers = [
            subprocess.Popen([go, packed, "127.0.0.1:0"], stdout=subprocess.PIPE),
            subprocess.Popen([zstn, "serve", "--json", "--port", "0", served], stdout=subprocess.PIPE),
        ]
        try:
            by_go = servers[0].stdout.readline().decode().strip()
            by_zstn = json.loads(servers[1].stdout.readline())["url"].rstrip("/")
            by_zstn += "/model.safetensors"
            for range_ in RANGES:
                answers = [fetch(url, range_)[0] for url in [by_go, by_zstn]]
                assert answers[0] == answers[1], (range_, answers[0][:2], answers[1][:2])
            for url in [by_go, by_zstn]:
                (status, _, body), tag = fetch(url, None)
                assert status == 200 and body == plain
                assert tag and fetch(url, None, tag)[0][0] == 304
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                starts = [number * 7919 % 1000000 for number in range(200)]
                ranges = [f"bytes={start}-{start + 4999}" for start in starts]
                answers = pool.map(lambda range_: fetch(by_go, range_)[0][2], ranges)
                assert list(answers) == [plain[start : start + 5000] for start in starts]
        finally:
            for server in servers:
                server.kill()
                server.wait()


main(*sys.argv[1:])
print("ok")
