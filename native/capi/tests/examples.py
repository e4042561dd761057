"""Runs the C and C++ examples, and checks that docs/c.md quotes them correctly:
examples.py PROGRAMS FOLDER
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def stripped(text):
    return [line.strip() for line in text.strip().splitlines()]


def check_document():
    """Checks that every code block in docs/c.md occurs in an example."""
    document = (ROOT / "docs/c.md").read_text(encoding="utf-8")
    examples = (ROOT / "native/capi/examples").rglob("*.*")
    programs = ["\n".join(stripped(path.read_text(encoding="utf-8"))) for path in examples]
    blocks = re.findall(r"```(?:c|cpp|go)\n(.*?)```", document, re.DOTALL)
    assert len(blocks) > 5, len(blocks)
    for block in blocks:
        part = "\n".join(stripped(block))
        assert any(part in program for program in programs), block


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, check=False)
    return done.returncode, done.stdout


def main(programs, folder):
    programs, folder = pathlib.Path(programs), pathlib.Path(folder)
    plain, packed = folder / "model.safetensors", folder / "model.zstn"
    data = plain.read_bytes()[-1048640:]
    for model in [plain, packed]:
        status, listed = run(programs / "rows", model)
        assert status == 0 and b"big BF16 [512, 1024] 1048576 bytes" in listed, listed
        assert run(programs / "rows", model, "big", "2") == (0, data[:4096].hex().encode() + b"\n")
        assert run(programs / "rows", model, "none")[0] == 1
        assert run(programs / "fetch", model, "big") == (0, data[:1048576])
        assert run(programs / "fetch", model, "small") == (0, bytes(range(60)))
        assert run(programs / "load", model) == (0, b"1048640 bytes\n")
    again = folder / "again.zstn"
    again.unlink(missing_ok=True)
    status, said = run(programs / "pack", plain, again)
    assert status == 0 and b"bytes of" in said, said
    assert again.read_bytes() == packed.read_bytes()
    # The output already exists.
    assert run(programs / "pack", plain, again)[0] == 1


check_document()
main(*sys.argv[1:])
print("ok")
