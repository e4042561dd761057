"""The agent with a server that stores packed objects, and clients without the agent."""

import hashlib
import json
import urllib.error
import urllib.request

import checkpoints
from machine import Case, objects, write_files
from servers import Giftless


class PlainServer(Case):
    def test_a_server_that_does_not_know_the_agent_gets_the_originals(self):
        server = Giftless.plain(self)
        self.machine.run(self.folder, "zstn", "lfs", "install", "--global")
        work = self.new_repository(self.machine)
        self.machine.run(work, "git", "config", "-f", ".lfsconfig", "lfs.url", server.lfs_url)
        checkpoints.write(work / "m.safetensors", 1)
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        content = (work / "m.safetensors").read_bytes()
        [stored] = objects(server.folder).values()
        self.assertEqual(stored.read_bytes(), content)
        clone = self.clone(self.machine, "clone")
        self.assertEqual((clone / "m.safetensors").read_bytes(), content)


class PackedServer(Case):
    def setUp(self):
        super().setUp()
        self.server = Giftless(self)

    def new_repository(self, machine, name="work"):
        folder = super().new_repository(machine, name)
        machine.run(folder, "git", "config", "-f", ".lfsconfig", "lfs.url", self.server.lfs_url)
        return folder

    def test_clients_with_and_without_the_agent(self):
        self.machine.run(self.folder, "zstn", "lfs", "install", "--global")
        work = self.new_repository(self.machine)
        expected = write_files(self.machine, work)
        self.commit(self.machine, work)
        command = ["git", "push", "origin", "main"]
        printed = self.machine.run(work, *command, GIT_TRACE="1")
        self.assertIn('starting transfer adapter "zstn"', printed)
        stored = objects(self.server.packed_folder())
        packed = [path for path in stored.values() if path.read_bytes().startswith(b"ZSTN")]
        self.assertEqual(len(packed), 13)
        sizes = {path.name: path.stat().st_size for path in packed}
        for path in work.glob("m*.safetensors"):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            self.assertLess(sizes[digest], path.stat().st_size)
        # With the agent, the files are checked out immediately.
        clone = self.clone(self.machine, "clone")
        self.assert_same_files(clone, expected | self.lfsconfig(work))
        # This client has git-lfs alone, which does not know about packed objects.
        plain = self.new_machine("plain")
        clone = self.clone(plain, "clone")
        self.assert_same_files(clone, expected | self.lfsconfig(work))
        plain.run(clone, "git", "lfs", "fsck")

    @staticmethod
    def lfsconfig(folder):
        content = (folder / ".lfsconfig").read_bytes()
        return {".lfsconfig": hashlib.sha256(content).hexdigest()}

    def test_what_a_plain_client_sends_is_packed_too(self):
        work = self.new_repository(self.machine)
        expected = write_files(self.machine, work) | self.lfsconfig(work)
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        stored = objects(self.server.packed_folder()).values()
        forms = [path.read_bytes()[:4] for path in stored]
        self.assertEqual(forms.count(b"ZSTN"), 13)
        self.assertEqual(forms.count(b"ZLFS"), 3)
        other = self.new_machine("second")
        other.run(other.home, "zstn", "lfs", "install", "--global")
        self.assert_same_files(self.clone(other, "clone"), expected)

    def test_ranges_of_the_original(self):
        original, action = self.pushed_object("basic")
        length = len(original)
        for first, last in [(0, 0), (3, 9000), (length - 5, length - 1)]:
            request = urllib.request.Request(
                action["href"],
                headers={**action["header"], "Range": f"bytes={first}-{last}"},
            )
            with urllib.request.urlopen(request) as answer:
                self.assertEqual(answer.status, 206)
                self.assertEqual(answer.read(), original[first : last + 1])
                total = answer.headers["Content-Range"]
                self.assertEqual(total, f"bytes {first}-{last}/{length}")
        request = urllib.request.Request(action["href"], headers=action["header"])
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(int(answer.headers["Content-Length"]), length)
            self.assertEqual(answer.read(), original)

    def pushed_object(self, transfer):
        """Pushes a checkpoint. Returns it with the action that downloads it."""
        self.machine.run(self.folder, "zstn", "lfs", "install", "--global")
        work = self.new_repository(self.machine)
        checkpoints.write(work / "m.safetensors", 1)
        self.commit(self.machine, work)
        self.machine.run(work, "git", "push", "--quiet", "origin", "main")
        original = (work / "m.safetensors").read_bytes()
        answer = self.batch("download", transfer, original, len(original))
        return original, answer["actions"]["download"]

    def test_a_client_that_knows_both_gets_packed_objects(self):
        for transfers in [["basic", "zstn"], ["lfs-standalone-file", "zstn", "basic"]]:
            self.assertEqual(self.ask("upload", transfers, b"x", 1)["transfer"], "zstn")
        answer = self.ask("upload", ["ssh", "basic"], b"x", 1)
        self.assertEqual(answer["transfer"], "basic")
        for body in [b"", b"[]", b"{", b'{"transfers": 1}', b'{"transfers": [[], {}]}']:
            with self.assertRaises(urllib.error.HTTPError) as raised:
                self.post_batch(body)
            self.assertEqual(raised.exception.code // 100, 4)
            raised.exception.close()

    def batch(self, operation, transfer, content, size):
        reply = self.ask(operation, [transfer], content, size)
        self.assertEqual(reply["transfer"], transfer)
        return reply["objects"][0]

    def ask(self, operation, transfers, content, size):
        oid = hashlib.sha256(content).hexdigest()
        body = {
            "operation": operation,
            "transfers": transfers,
            "objects": [{"oid": oid, "size": size}],
        }
        return self.post_batch(json.dumps(body).encode())

    def post_batch(self, body):
        kind = "application/vnd.git-lfs+json"
        headers = {"Content-Type": kind, "Accept": kind}
        url = f"{self.server.lfs_url}/objects/batch"
        request = urllib.request.Request(url, body, headers, method="POST")
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    def test_bytes_of_another_object_are_refused(self):
        for transfer, content in [("basic", b"one"), ("zstn", b"two"), ("zstn", b"three")]:
            wrong = b"ZSTN" if content == b"three" else b"something else"
            answer = self.batch("upload", transfer, content, len(content))
            action = answer["actions"]["upload"]
            with self.assertRaises(urllib.error.HTTPError) as raised:
                self.put(action, wrong)
            self.assertEqual(raised.exception.code, 422)
            raised.exception.close()
            self.assertEqual(objects(self.server.folder), {})
            with self.assertRaises(urllib.error.HTTPError) as raised:
                self.verify(answer, content)
            raised.exception.close()
            self.put(action, content)
            self.verify(answer, content)
            for path in objects(self.server.folder).values():
                path.unlink()
        leftovers = [path for path in self.server.folder.rglob("*") if path.is_file()]
        self.assertEqual(leftovers, [])

    @staticmethod
    def put(action, content):
        request = urllib.request.Request(
            action["href"], content, action["header"], method="PUT"
        )
        urllib.request.urlopen(request).close()

    @staticmethod
    def verify(answer, content):
        action = answer["actions"]["verify"]
        body = {"oid": hashlib.sha256(content).hexdigest(), "size": 12345}
        headers = {**action["header"], "Content-Type": "application/vnd.git-lfs+json"}
        request = urllib.request.Request(action["href"], json.dumps(body).encode(), headers)
        urllib.request.urlopen(request).close()

    def test_a_damaged_object_is_a_sentence(self):
        original, _ = self.pushed_object("zstn")
        [stored] = objects(self.server.folder).values()
        content = bytearray(stored.read_bytes())
        content[len(content) // 2] ^= 1
        stored.write_bytes(content)
        command = ["git", "clone", "--quiet", self.remote, self.machine.home / "clone"]
        status, printed = self.machine.attempt(self.machine.home, *command)
        self.assertNotEqual(status, 0)
        self.assertIn(" is damaged: ", printed)
        self.assertIn("git lfs push --object-id", printed)
