"""The servers with which git-lfs and its agent communicate: Giftless, and moto for S3."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

from machine import LIMIT_SECONDS

MOTO = os.environ.get("ZSTN_MOTO_SERVER")

#: Transfer adapters for objects stored packed, which also serve the originals to other
#: clients.
PACKED_AND_ORIGINAL = {
    "zstn": {"factory": "zstn_hub.giftless:packed"},
    "basic": {"factory": "zstn_hub.giftless:original"},
}


class Server:
    """A server on a free port that runs until the test ends."""

    def __init__(self, test, name, command, variables=None):
        self.port = _free_port()
        self.log = test.folder / f"{name}.log"
        command = [str(word).replace("PORT", str(self.port)) for word in command]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=test.folder,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        deadline = time.monotonic() + LIMIT_SECONDS
        while not self._listens():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} does not listen:\n{self.log.read_text()}")
            time.sleep(0.05)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True


class Giftless(Server):
    """A git-lfs server whose transfer adapters share one folder."""

    def __init__(self, test, adapters=None):
        self.folder = test.folder / "objects"
        if adapters is None:
            adapters = {
                name: {**adapter, "options": {"path": str(self.folder)}}
                for name, adapter in PACKED_AND_ORIGINAL.items()
            }
        config = {
            "AUTH_PROVIDERS": ["giftless.auth.allow_anon:read_write"],
            "LEGACY_ENDPOINTS": False,
            "TRANSFER_ADAPTERS": adapters,
        }
        path = test.folder / "giftless.yaml"
        # JSON is valid YAML.
        path.write_text(json.dumps(config))
        command = [sys.executable, "-m", "waitress", "--listen=127.0.0.1:PORT"]
        command.append("giftless.wsgi_entrypoint:app")
        super().__init__(test, "giftless", command, {"GIFTLESS_CONFIG_FILE": str(path)})
        self.lfs_url = f"{self.url}/org/repo.git/info/lfs"

    @classmethod
    def plain(cls, test):
        """Starts a server that does not know about packed objects."""
        storage = {"path": str(test.folder / "objects")}
        options = {
            "storage_class": "giftless.storage.local_storage:LocalStorage",
            "storage_options": storage,
            "action_lifetime": 900,
        }
        factory = "giftless.transfer.basic_streaming:factory"
        return cls(test, {"basic": {"factory": factory, "options": options}})

    def packed_folder(self):
        return self.folder / "org" / "repo"


class Moto(Server):
    """An S3 server with one bucket."""

    def __init__(self, test):
        super().__init__(test, "moto", [MOTO, "-H", "127.0.0.1", "-p", "PORT"])
        request = urllib.request.Request(f"{self.url}/bucket", method="PUT")
        urllib.request.urlopen(request).close()

    def environment(self):
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "the-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
        }

    def list(self):
        """Returns the lengths of all objects by name, as S3 lists them."""
        from xml.etree import ElementTree

        with urllib.request.urlopen(f"{self.url}/bucket?list-type=2") as answer:
            tree = ElementTree.fromstring(answer.read())
        space = {"s3": tree.tag[1:].partition("}")[0]}
        return {
            entry.findtext("s3:Key", namespaces=space): int(
                entry.findtext("s3:Size", namespaces=space)
            )
            for entry in tree.findall("s3:Contents", space)
        }


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


