"""Local files that a push uploads, and output folders that appear only when they are
complete."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .._errors import ZstnError
from ..hub._cache import cache_folder

_ATTRIBUTES = ".gitattributes"

#: Names of files and folders that are not part of a checkpoint; `hf upload` skips the
#: same.
_LEFT_OUT = frozenset({".git", ".cache", "__pycache__"})

#: Folders that contain credentials of other programs.
_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".huggingface"}
)

#: Names of files that contain credentials, in lower case.
_SECRET = re.compile(
    r"""
    \.env(\..+)? | .+\.env | \.envrc
    | [._]netrc | \.git-credentials | \.npmrc | \.yarnrc(\.yml)? | \.pypirc | \.pgpass
    | \.my\.cnf | \.htpasswd | \.boto | \.s3cfg | \.dockercfg | \.dockerconfigjson
    | \.vault-token | kubeconfig | \.[a-z]*_history
    | id_(rsa|dsa|ecdsa|ed25519)(_sk)?
    | .+\.(pem|key|p8|p12|pfx|ppk|jks|keystore|kdbx?)
    | (client_)?secrets?([._-].*)?\.(json|ya?ml|toml|txt|ini)
    | (.*[._-])?credentials(\.(json|ya?ml|toml|txt|ini|csv))?
    | (.*[._-])?service[._-]?account([._-].*)?\.json
    | (hf_|access_|api_)?token | (hf_|access_|api_)token\.txt | stored_tokens
    """,
    re.VERBOSE,
)

#: Example files of that kind, which are meant to be shared.
_EXAMPLE = re.compile(r".*\.(example|sample|template|dist)")

#: Number of bytes at the start of a file that are searched for a private key.
_HEAD_BYTES = 4096
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File-")


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of a folder, or a single file."""

    paths: dict[str, Path] = field(default_factory=dict)
    """Paths of files by their names in a repository."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Reasons why other files are not uploaded, by name."""


def local_files(source: str) -> LocalFiles:
    """Returns a single file, or the files of a folder, by their names in a repository.

    Links to files are followed only if they stay inside the folder; links to folders are
    not followed. Files that contain credentials and entries that are not regular files
    are skipped.
    """
    root = Path(source)
    if not root.exists():
        raise FileNotFoundError(f"{source}: no such file or folder")
    found = LocalFiles()
    if not root.is_dir():
        reason = _refused(root, root.name, [os.path.realpath(root)])
        if reason is not None:
            raise ZstnError(f"{source} is not pushed: {reason}")
        found.paths[root.name] = root
        return found
    places = _places(root)
    for folder, folders, names in os.walk(root):
        for name in sorted(folders):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                found.left_out[relative] = "it is a link to a folder"
            elif name.lower() in _SECRET_FOLDERS:
                found.left_out[relative] = "such folders contain credentials"
            elif name not in _LEFT_OUT:
                continue
            folders.remove(name)
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if relative == _ATTRIBUTES or name in _LEFT_OUT:
                continue
            reason = _refused(path, name, places)
            if reason is None:
                found.paths[relative] = path
            else:
                found.left_out[relative] = reason
    if not found.paths:
        raise ZstnError(f"{source} has no files to push")
    return found


def _places(root: Path) -> list[str]:
    """Returns the folders that links in `root` may point to: `root` itself and, if it
    is a folder in a cache, the folders where that cache stores its files."""
    real = os.path.realpath(root)
    places = [real]
    # In huggingface_hub's cache, models--OWNER--NAME/snapshots/COMMIT links to
    # ../../blobs.
    snapshots = os.path.dirname(real)
    if os.path.basename(snapshots) == "snapshots":
        places.append(os.path.join(os.path.dirname(snapshots), "blobs"))
    own = os.path.realpath(cache_folder())
    if _is_below(real, own):
        # Folders in this package's cache link to restored files, and to files in
        # huggingface_hub's cache.
        from huggingface_hub import constants

        places += [own, os.path.realpath(constants.HF_HUB_CACHE)]
    return places


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _refused(path: Path, name: str, places: list[str]) -> str | None:
    """Returns the reason why a file is not uploaded; `None` if it is."""
    target = os.path.realpath(path)
    if path.is_symlink() and not any(_is_below(target, place) for place in places):
        return "it is a link that leads out of the folder"
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "it is a link that leads nowhere" if path.is_symlink() else "it cannot be read"
    if not stat.S_ISREG(mode):
        return "it is not a regular file"
    for one in {name.lower(), os.path.basename(target).lower()}:
        if _SECRET.fullmatch(one) and not _EXAMPLE.fullmatch(one):
            return "such files contain credentials"
    with open(path, "rb") as file:
        if _PRIVATE_KEY.search(file.read(_HEAD_BYTES)):
            return "it contains a private key"
    return None


#: A subfolder that huggingface_hub creates in folders that it downloads to.
_DOWNLOADED = Path(".cache", "huggingface")


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a hidden folder that is renamed to `path` at the end. After an exception it
    is removed.

    Raises:
        ZstnError: if `path` exists and is not an empty folder.
    """
    target = Path(path)
    if target.exists() and not _is_empty(target):
        raise ZstnError(f"{path} already exists; choose another name, or remove it first", "exists")
    if target.is_symlink() or target.is_mount() or target.resolve() == Path.cwd():
        raise ZstnError(
            f"{path} is a link, a mount point or the current folder, which cannot be replaced; "
            "choose another name",
            "exists",
        )
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", suffix=".part", dir=parent) as part:
        made = Path(part) / "made"
        made.mkdir()
        yield made
        os.replace(made, target)


def check_pulled(path: str | os.PathLike[str]) -> None:
    """Refuses a folder that contains files and was not created by a download with
    huggingface_hub, as a download would replace its files.

    Raises:
        ZstnError: if `path` is such a folder.
    """
    target = Path(path)
    if target.exists() and not _is_empty(target) and not (target / _DOWNLOADED).is_dir():
        raise ZstnError(f"{path} already exists; choose another name, or remove it first", "exists")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def copy_folder(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copies a folder, replacing links by the files that they point to."""
    with new_folder(target) as made:
        shutil.copytree(source, made, dirs_exist_ok=True)
