"""The agent with a store and without a server: git-lfs moves objects to a folder or to
S3, and back."""

import json
import os
import signal
import time

import checkpoints
from machine import LIMIT_SECONDS, Case, objects, write_files
from servers import Moto

#: Makes git-lfs print every message to and from the agent.
TRACE = {"GIT_TRACE": "1", "GIT_TRANSFER_TRACE": "1"}


class Store(Case):
    """Tests that apply to every store."""

    def assert_pushed_and_cloned(self, location):
        """Pushes files and clones them on another machine. Returns their digests."""
        work = self.new_repository(self.machine)
        expected = write_files(self.machine, work)
        self.machine.run(work, "zstn", "lfs", "install", "--store", location)
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        other = self.new_machine("second", self.variables())
        clone = self.clone_pointers(other, "clone")
        self.assertTrue((clone / "m0.safetensors").read_bytes().startswith(b"version "))
        other.run(clone, "zstn", "lfs", "install", "--store", location)
        other.run(clone, "git", "lfs", "pull")
        self.assert_same_files(clone, expected)
        self.assertEqual(other.run(clone, "git", "status", "--short"), "")
        other.run(clone, "git", "lfs", "fsck")
        return {digest: work / name for name, digest in expected.items()}

    def variables(self):
        return {}


class Folder(Store):
    def setUp(self):
        super().setUp()
        self.store = self.folder / "a store"

    def pushed(self, count=3):
        """Returns a repository whose checkpoints have been pushed."""
        work = self.new_repository(self.machine)
        checkpoints.write_many(work, count)
        self.machine.run(work, "zstn", "lfs", "install", "--store", self.store)
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        return work

    def test_files_of_every_kind(self):
        originals = self.assert_pushed_and_cloned(self.store)
        stored = objects(self.store)
        packed = 0
        for oid, path in stored.items():
            self.assertEqual(path.relative_to(self.store).parts, (oid[:2], oid[2:4], oid))
            original = originals[oid].read_bytes()
            content = path.read_bytes()
            if content.startswith(b"ZSTN"):
                packed += 1
                self.assertLess(len(content), len(original))
            elif content.startswith(b"ZLFS"):
                self.assertEqual(content[8:], original)
            else:
                self.assertEqual(content, original)
        # git-lfs does not store the empty file.
        self.assertEqual(len(stored), len(originals) - 2)  # .gitattributes is not an LFS object
        self.assertEqual(packed, 13)
        enveloped = {originals[oid].name for oid in stored if self.is_enveloped(stored[oid])}
        self.assertEqual(enveloped, {"packed.bin", "magic.bin", "envelope.bin"})

    @staticmethod
    def is_enveloped(path):
        return path.read_bytes().startswith(b"ZLFS\x01\0\0\0")

    def test_settings_on_the_command_line_serve_a_first_clone(self):
        work = self.pushed()
        settings = {
            "lfs.standalonetransferagent": "zstn",
            "lfs.customtransfer.zstn.path": "zstn",
            "lfs.customtransfer.zstn.args": f"lfs agent --store '{self.store}'",
            "lfs.customtransfer.zstn.concurrent": "false",
        }
        arguments = [word for item in settings.items() for word in ("-c", "=".join(item))]
        clone = self.clone(self.machine, "clone", *arguments)
        content = (clone / "m0.safetensors").read_bytes()
        self.assertEqual(content, (work / "m0.safetensors").read_bytes())

    def test_an_object_that_is_there_is_not_sent_again(self):
        work = self.pushed()
        before = {oid: path.stat().st_mtime_ns for oid, path in objects(self.store).items()}
        self.assertEqual(len(before), 3)
        # git-lfs would send all objects again if it did not ask which exist.
        self.machine.run(work, "git", "lfs", "push", "--all", "origin")
        checkpoints.write(work / "new.safetensors", 50)
        self.commit(self.machine, work, "one more")
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        after = {oid: path.stat().st_mtime_ns for oid, path in objects(self.store).items()}
        self.assertEqual({oid: after[oid] for oid in before}, before)
        self.assertEqual(len(after), 4)

    def test_damaged_and_missing_objects_are_a_sentence_each(self):
        self.pushed(4)
        stored = sorted(objects(self.store).values())
        content = bytearray(stored[0].read_bytes())
        content[len(content) // 2] ^= 1
        stored[0].write_bytes(content)
        stored[1].write_bytes(stored[1].read_bytes()[:1000])
        stored[2].unlink()
        other = self.new_machine("second")
        clone = self.clone_pointers(other, "clone")
        other.run(clone, "zstn", "lfs", "install", "--store", self.store)
        status, printed = other.attempt(clone, "git", "lfs", "fetch")
        self.assertNotEqual(status, 0)
        for path, word in zip(stored, ["is damaged", "is damaged", "is not there"]):
            lines = [line for line in printed.splitlines() if str(path) in line]
            self.assertEqual(len(lines), 1, printed)
            self.assertIn(word, lines[0])
            self.assertIn("git lfs push", lines[0])
        # The undamaged object was fetched nevertheless.
        self.assertEqual(list(objects(clone / ".git/lfs/objects")), [stored[3].name])

    def test_a_damaged_local_copy_is_not_sent(self):
        work = self.new_repository(self.machine)
        checkpoints.write_many(work, 2)
        self.machine.run(work, "zstn", "lfs", "install", "--store", self.store)
        self.commit(self.machine, work)
        damaged, whole = sorted(objects(work / ".git/lfs/objects").values())
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.chmod(0o644)
        damaged.write_bytes(content)
        status, printed = self.machine.attempt(work, "git", "push", "origin", "main")
        self.assertNotEqual(status, 0)
        self.assertIn("the local copy", printed)
        self.assertIn("git lfs fsck", printed)
        self.assertEqual(list(objects(self.store)), [whole.name])

    def test_progress_counts_bytes_of_the_original(self):
        work = self.new_repository(self.machine)
        write_files(self.machine, work)
        checkpoints.write(work / "larger.safetensors", 77, 600_000)
        self.machine.run(work, "zstn", "lfs", "install", "--store", self.store)
        self.commit(self.machine, work)
        printed = self.machine.run(work, "git", "push", "origin", "main", **TRACE)
        self.assert_progress(printed, "upload")
        other = self.new_machine("second")
        clone = self.clone_pointers(other, "clone")
        other.run(clone, "zstn", "lfs", "install", "--store", self.store)
        printed = other.run(clone, "git", "lfs", "fetch", **TRACE)
        self.assert_progress(printed, "download")

    def assert_progress(self, trace, event):
        sizes, so_far, messages = {}, {}, {}
        for line in trace.splitlines():
            _, found, text = line.partition("Custom adapter worker 0 ")
            text = text.partition(": ")[2]
            if not found or not text.startswith("{"):
                continue
            message = json.loads(text)
            kind, oid = message.get("event"), message.get("oid")
            if kind == event:
                sizes[oid], so_far[oid], messages[oid] = message["size"], 0, 0
            elif kind == "progress":
                so_far[oid] += message["bytesSinceLast"]
                messages[oid] += 1
                self.assertEqual(so_far[oid], message["bytesSoFar"])
                self.assertLessEqual(so_far[oid], sizes[oid])
        self.assertGreater(len(sizes), 15)
        self.assertEqual(so_far, sizes)
        # The largest object takes longer than the interval between two messages.
        self.assertGreater(messages[max(sizes, key=sizes.get)], 1)

    def test_a_push_after_one_that_was_killed_completes(self):
        work = self.new_repository(self.machine)
        checkpoints.write_many(work, 9, 200_000)
        self.machine.run(work, "zstn", "lfs", "install", "--store", self.store)
        self.commit(self.machine, work)
        push = self.machine.start(work, "git", "push", "--quiet", "origin", "main")
        deadline = time.monotonic() + LIMIT_SECONDS
        while not objects(self.store) and time.monotonic() < deadline:
            time.sleep(0.002)
        os.killpg(push.pid, signal.SIGKILL)
        push.communicate()
        done = objects(self.store)
        self.assertIn(len(done), range(1, 9))
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        self.assertEqual(len(objects(self.store)), 9)
        other = self.new_machine("second")
        clone = self.clone_pointers(other, "clone")
        other.run(clone, "zstn", "lfs", "install", "--store", self.store)
        other.run(clone, "git", "lfs", "pull")
        for path in work.glob("*.safetensors"):
            self.assertEqual(path.read_bytes(), (clone / path.name).read_bytes())

    def test_a_store_that_is_not_mounted_is_said_at_once(self):
        work = self.pushed()
        self.store.rename(self.folder / "elsewhere")
        checkpoints.write(work / "new.safetensors", 50)
        self.commit(self.machine, work, "one more")
        status, printed = self.machine.attempt(work, "git", "push", "origin", "main")
        self.assertNotEqual(status, 0)
        self.assertIn("mount it, or create the folder", printed)
        self.assertFalse(self.store.exists())

    def test_install_and_uninstall(self):
        work = self.new_repository(self.machine)
        settings = self.machine.run(work, "git", "config", "--local", "--list")
        self.machine.run(work, "zstn", "lfs", "install", "--store", self.store)
        self.machine.run(work, "zstn", "lfs", "install", "--filter")
        self.machine.run(work, "zstn", "lfs", "install", "--global")
        status = json.loads(self.machine.run(work, "zstn", "lfs", "status", "--json"))
        agents = [s["scope"] for s in status["settings"] if s["key"].endswith("zstn.path")]
        self.assertEqual(sorted(agents), ["global", "local"])
        self.assertIn("lfs agent --store", self.machine.run(work, "zstn", "lfs", "status"))
        # Installing without a store removes the store that was configured in the same
        # scope.
        self.machine.run(work, "zstn", "lfs", "install")
        get = ["git", "config", "--get", "lfs.standalonetransferagent"]
        self.assertEqual(self.machine.attempt(work, *get)[0], 1)
        url = "https://lfs.example.org/r"
        location = ["--store", self.store, "--url", url]
        self.machine.run(work, "zstn", "lfs", "install", *location)
        get[-1] = f"lfs.{url}.standalonetransferagent"
        self.assertEqual(self.machine.run(work, *get), "zstn\n")
        self.machine.run(work, "zstn", "lfs", "uninstall")
        self.machine.run(work, "zstn", "lfs", "uninstall", "--global")
        after = self.machine.run(work, "git", "config", "--local", "--list")
        self.assertEqual(after, settings)
        self.assertIn("nothing", self.machine.run(work, "zstn", "lfs", "status"))
        status, printed = self.machine.attempt(self.folder, "zstn", "lfs", "install")
        self.assertEqual(status, 2)
        self.assertIn("--global", printed)


class ObjectStore(Store):
    def setUp(self):
        super().setUp()
        self.moto = Moto(self)
        self.machine.environment.update(self.variables())

    def variables(self):
        return self.moto.environment()

    def test_files_of_every_kind(self):
        originals = self.assert_pushed_and_cloned("s3://bucket/lfs")
        stored = self.moto.list()
        self.assertEqual(len(stored), len(originals) - 2)
        smaller = 0
        for key, length in stored.items():
            oid = key.rpartition("/")[2]
            self.assertEqual(key, f"lfs/{oid[:2]}/{oid[2:4]}/{oid}")
            smaller += length < originals[oid].stat().st_size
        self.assertEqual(smaller, 13)
        # Every missing object is reported exactly once.
        other = self.new_machine("third", self.variables())
        clone = self.clone_pointers(other, "clone")
        other.run(clone, "zstn", "lfs", "install", "--store", "s3://bucket/elsewhere")
        status, printed = other.attempt(clone, "git", "lfs", "fetch")
        self.assertNotEqual(status, 0)
        for key in stored:
            sentence = f"s3://bucket/elsewhere/{key.removeprefix('lfs/')}: the object is not there"
            self.assertEqual(printed.count(sentence), 1, printed)
