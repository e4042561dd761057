"""Tests the commands and the configuration in docs/git-lfs.md."""

import re

import checkpoints
import yaml
from machine import ROOT, Case, objects
from servers import Giftless

DOCUMENT = (ROOT / "docs" / "git-lfs.md").read_text()
REMOTE = "https://git.example.org/models.git"
LFS_URL = "https://lfs.example.org/org/repo.git/info/lfs"


def block(language, section, number=0):
    """Returns a code block of a section."""
    text = DOCUMENT.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(f"```{language}\n(.*?)```", text, re.DOTALL)[number]


class Document(Case):
    def repository(self):
        work = self.machine.home / "work"
        self.machine.run(self.folder, "git", "clone", "--quiet", self.remote, work)
        checkpoints.write(work / "model.safetensors", 1)
        return work

    def shell(self, machine, folder, commands, **replaced):
        store = str(self.folder / "store")
        for old, new in {REMOTE: str(self.remote), "/mnt/models/lfs": store, **replaced}.items():
            commands = commands.replace(old, new)
        machine.run(folder, "sh", "-e", "-c", commands)

    def assert_cloned(self, clone, work):
        original = (work / "model.safetensors").read_bytes()
        self.assertEqual((clone / "model.safetensors").read_bytes(), original)

    def test_a_store(self):
        work = self.repository()
        self.shell(self.machine, work, block("sh", "A store"))
        self.assertEqual(len(objects(self.folder / "store")), 1)
        other = self.new_machine("second")
        self.shell(other, other.home, block("sh", "A store", 1))
        self.assert_cloned(other.home / "models", work)

    def test_a_server(self):
        config = yaml.safe_load(block("yaml", "A server"))
        for adapter in config["TRANSFER_ADAPTERS"].values():
            self.assertEqual(adapter["options"]["path"], "/srv/lfs")
            adapter["options"]["path"] = str(self.folder / "objects")
        server = Giftless(self, config["TRANSFER_ADAPTERS"])
        work = self.repository()
        self.shell(self.machine, work, block("sh", "A server"), **{LFS_URL: server.lfs_url})
        [stored] = objects(self.folder / "objects").values()
        self.assertTrue(stored.read_bytes().startswith(b"ZSTN"))
        plain = self.new_machine("second")
        self.assert_cloned(self.clone(plain, "clone"), work)

    def test_the_filter(self):
        server = Giftless.plain(self)
        self.machine.run(self.folder, "git", "config", "--global", "lfs.url", server.lfs_url)
        work = self.repository()
        self.shell(self.machine, work, block("sh", "The filter"))
        self.assert_cloned(self.clone(self.machine, "clone"), work)
        # The document also describes how to return to plain objects.
        self.machine.run(work, "zstn", "lfs", "uninstall", "--global")
        self.machine.run(work, "git", "add", "--renormalize", ".")
        self.machine.run(work, "git", "commit", "--quiet", "--message", "Plain objects")
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        plain = self.new_machine("second")
        plain.run(plain.home, "git", "config", "--global", "lfs.url", server.lfs_url)
        self.assert_cloned(self.clone(plain, "clone"), work)

    def test_every_block_is_run(self):
        self.assertEqual(DOCUMENT.count("```sh\n"), 4)
