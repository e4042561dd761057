"""Files from PyPI packages, pinned by hash and downloaded once into `target/cache/downloads`."""

import functools
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

CACHE = pathlib.Path(__file__).resolve().parents[3] / "target" / "cache"

# Requirement -> SHA-256 of its wheel, which is the same for every platform.
WHEELS = {
    "sre-embedding-model==1.0.0": "331acba0710211462cda9adaac17e32916cb3e1a9e69528195a68a851b1f523e",
    "captcha-recognizer==0.10.0": "855d09ef2e213111df792609efcc68243e855c26aa5249806ea5bddbe6eca250",
    "captcha-recognizer==1.0.0": "2431dcb9d3cd5006527103b47688e466bc6b92c5d90f3d6b1e39cc63a3385d35",
    "silero-vad==5.1.2": "93b41953d7774b165407fda6b533c119c5803864e367d5034dc626c82cfdf661",
    "silero-vad==6.0.0": "37d29be8944d2a2e6f1cc38a066076f13e78e6fc1b567a1beddcca72096f077f",
    "silero-vad==6.2.3": "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
}


@functools.cache
def wheel(requirement):
    """The path of a wheel. pip checks its hash on download, and this function on every call."""
    name, version = requirement.split("==")
    folder = CACHE / "downloads"
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    if not path.is_file():
        _download(requirement, folder)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != WHEELS[requirement]:
        raise SystemExit(f"{path} has SHA-256 {found}, not {WHEELS[requirement]}: remove it and try again")
    return path


def _download(requirement, folder):
    with tempfile.TemporaryDirectory() as temporary:
        wanted = pathlib.Path(temporary) / "requirements.txt"
        wanted.write_text(f"{requirement} --hash=sha256:{WHEELS[requirement]}\n")
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input", "--quiet"]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options]
        subprocess.run([*command, "--dest", str(folder), "--requirement", str(wanted)], check=True)


def member(requirement, name):
    """The bytes of one file in a wheel."""
    with zipfile.ZipFile(wheel(requirement)) as archive:
        return archive.read(name)
