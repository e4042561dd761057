"""The filter stores packed files on a server that does not know about them."""

import hashlib
import os
from pathlib import Path

import checkpoints
from machine import ZSTN, Case, objects, write_files
from servers import Giftless


class Filter(Case):
    def setUp(self):
        super().setUp()
        self.server = Giftless.plain(self)
        self.machine.run(self.folder, "zstn", "lfs", "install", "--global", "--filter")

    def new_repository(self, machine, name="work"):
        folder = super().new_repository(machine, name)
        machine.run(folder, "git", "config", "-f", ".lfsconfig", "lfs.url", self.server.lfs_url)
        return folder

    def pushed(self):
        work = self.new_repository(self.machine)
        checkpoints.write_many(work, 2)
        (work / "noise.bin").write_bytes(checkpoints.noise(5000))
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        return work

    def test_files_of_every_kind(self):
        work = self.new_repository(self.machine)
        expected = write_files(self.machine, work)
        content = (work / ".lfsconfig").read_bytes()
        expected[".lfsconfig"] = hashlib.sha256(content).hexdigest()
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        stored = objects(self.folder / "objects")
        # Each object is named by the digest of its packed bytes, so any server accepts
        # it.
        for oid, path in stored.items():
            self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), oid)
        total = sum(path.stat().st_size for path in work.iterdir() if path.is_file())
        self.assertLess(sum(path.stat().st_size for path in stored.values()), 0.95 * total)
        clone = self.clone(self.machine, "clone")
        self.assert_same_files(clone, expected)
        self.assertEqual(self.machine.run(clone, "git", "status", "--short"), "")
        # Packing the same bytes again gives the same result.
        for path in clone.glob("*.safetensors"):
            os.utime(path, (1, 1))
        self.assertEqual(self.machine.run(clone, "git", "status", "--short"), "")
        pointer = self.machine.run(clone, "git", "show", "HEAD:m0.safetensors")
        self.assertIn("ext-0-zstn sha256:", pointer)
        # Files that are not packed can be read without the filter.
        pointer = self.machine.run(clone, "git", "show", "HEAD:packed.bin")
        self.assertNotIn("ext-0-zstn", pointer)

    def test_a_clone_without_the_filter_stops(self):
        self.pushed()
        plain = self.new_machine("plain")
        command = ["git", "clone", "--quiet", self.remote, plain.home / "clone"]
        status, printed = plain.attempt(plain.home, *command)
        self.assertNotEqual(status, 0)
        self.assertIn("'zstn' is not configured", printed)

    def test_a_pointer_is_not_packed_into_another(self):
        self.pushed()
        clone = self.clone_pointers(self.machine, "clone")
        pointer = (clone / "noise.bin").read_bytes()
        self.assertTrue(pointer.startswith(b"version https://git-lfs"))
        for path in clone.glob("*.*"):
            os.utime(path, (1, 1))
        status, printed = self.machine.attempt(clone, "git", "add", "--all")
        self.assertNotEqual(status, 0)
        self.assertIn("exit status 2", printed)
        log = clone / ".git/lfs/zstn/filter.log"
        self.assertRegex(log.read_text(), "(?m)^clean: .*is a pointer of git-lfs")
        self.assertIn(str(log), self.machine.run(clone, "zstn", "lfs", "status"))
        # The message names this command, which resolves the problem.
        self.machine.run(clone, "git", "lfs", "pull")
        self.machine.run(clone, "git", "add", "--all")
        self.assertEqual(self.machine.run(clone, "git", "status", "--short"), "")

    def test_a_damaged_object_is_in_the_log(self):
        work = self.pushed()
        pointer = self.machine.run(work, "git", "show", "HEAD:m0.safetensors")
        oid = next(line for line in pointer.splitlines() if line.startswith("oid "))
        packed = objects(work / ".git/lfs/objects")[oid.rpartition(":")[2]]
        content = bytearray(packed.read_bytes())
        content[len(content) // 2] ^= 1
        packed.chmod(0o644)
        packed.write_bytes(content)
        (work / "m0.safetensors").unlink()
        command = ["git", "checkout", "--", "m0.safetensors"]
        self.assertNotEqual(self.machine.attempt(work, *command)[0], 0)
        log = (work / ".git/lfs/zstn/filter.log").read_text()
        self.assertRegex(log, "^smudge: m0.safetensors: ")
        self.assertFalse((work / "m0.safetensors").exists())

    def test_a_program_with_a_space_in_its_path_is_refused(self):
        folder = self.folder / "two words"
        folder.mkdir()
        program = folder / "zstn"
        program.write_bytes(Path(ZSTN).read_bytes())
        program.chmod(0o755)
        command = [program, "lfs", "install", "--global", "--filter"]
        status, printed = self.machine.attempt(self.folder, *command)
        self.assertEqual(status, 2)
        self.assertIn("contains a space", printed)
        # Unlike the filter, the agent can have any path.
        self.machine.run(self.folder, program, "lfs", "install", "--global")
        work = self.new_repository(self.machine)
        path = self.machine.run(work, "git", "config", "lfs.customtransfer.zstn.path")
        self.assertEqual(path.strip(), str(program))
