"""`zstn.enable_hf` with the real safetensors. The tests with transformers, diffusers
and accelerate are in with_torch/."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import assert_same
from safetensors import deserialize as early_deserialize
from safetensors import safe_open as early_safe_open

import zstn

ORIGINAL = (safetensors.safe_open, safetensors.deserialize)


@pytest.fixture
def enabled() -> Iterator[None]:
    zstn.enable_hf()
    yield
    zstn.disable_hf()
    assert (safetensors.safe_open, safetensors.deserialize) == ORIGINAL


@pytest.fixture
def shown(tmp_path: Path, packed: Path) -> Path:
    """A packed file under the name of a plain one."""
    path = tmp_path / "shown" / "model.safetensors"
    path.parent.mkdir()
    shutil.copy(packed, path)
    return path


def test_packed_files_are_read_where_plain_ones_are(
    enabled: None, shown: Path, tensors: dict[str, np.ndarray]
) -> None:
    assert_same(safetensors.numpy.load_file(shown), tensors)
    assert_same(safetensors.numpy.load(shown.read_bytes()), tensors)
    with safetensors.safe_open(shown, framework="np") as file:
        assert file.metadata() == {"format": "np"}
        assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors)
        assert (file.get_slice("ids")[:1] == tensors["ids"][:1]).all()


def test_names_that_were_imported_before_are_replaced(enabled: None, shown: Path) -> None:
    assert early_safe_open is safetensors.safe_open
    assert early_safe_open(shown, "np").keys()
    assert early_deserialize(shown.read_bytes())


def test_plain_files_have_the_original_object(enabled: None, plain: Path) -> None:
    opened = safetensors.safe_open(plain, "np")
    assert type(opened) is ORIGINAL[0]
    found, expected = (call(plain.read_bytes()) for call in (safetensors.deserialize, ORIGINAL[1]))
    assert dict(found) == dict(expected)


def test_both_are_instances(enabled: None, plain: Path, shown: Path) -> None:
    for path in (plain, shown):
        assert isinstance(safetensors.safe_open(path, "np"), safetensors.safe_open)
    assert not isinstance(plain, safetensors.safe_open)


def test_deserialize_gives_the_same_tensors(enabled: None, plain: Path, packed: Path) -> None:
    # The order of the original's results varies.
    expected = dict(safetensors.deserialize(plain.read_bytes()))
    for data in (packed.read_bytes(), bytearray(packed.read_bytes())):
        found = safetensors.deserialize(data)
        assert len(found) == len(expected)
        for name, one in found:
            other = expected[name]
            assert set(one) == set(other)
            assert (one["dtype"], one["shape"]) == (other["dtype"], other["shape"])
            assert len(one["data"]) == len(other["data"])
            assert bytes(one["data"]) == other["data"]
            # The memory must be as writable as the original's.
            assert not memoryview(one["data"]).readonly


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_the_backend_is_passed_on(
    enabled: None, plain: Path, shown: Path, tensors: dict[str, np.ndarray], backend: str
) -> None:
    for path in (plain, shown):
        assert_same(safetensors.numpy.load_file(path, backend=backend), tensors)
        file = safetensors.safe_open(filename=path, framework="np", device="cpu", backend=backend)
        assert file.keys() == sorted(tensors)


def test_refusals_are_those_of_safetensors(enabled: None, tmp_path: Path, plain: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"no checkpoint at all")
    for arguments in ((tmp_path / "none", "np"), (tmp_path / "garbage", "np"), (plain,), (3, "np")):
        with pytest.raises(Exception) as expected:
            ORIGINAL[0](*arguments)
        with pytest.raises(type(expected.value)) as found:
            safetensors.safe_open(*arguments)
        assert str(found.value) == str(expected.value)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(b"no checkpoint at all")
    with pytest.raises(TypeError):
        safetensors.deserialize(None)


def test_enabling_again_changes_nothing(enabled: None) -> None:
    before = safetensors.safe_open, safetensors.deserialize, list(sys.meta_path)
    zstn.enable_hf()
    assert before == (safetensors.safe_open, safetensors.deserialize, sys.meta_path)


def test_disabling_restores_every_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Path
) -> None:
    (tmp_path / "late_library.py").write_text(
        "from safetensors import safe_open as opener, deserialize\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    assert not zstn.is_enabled()
    zstn.enable_hf()
    late = importlib.import_module("late_library")
    monkeypatch.delitem(sys.modules, "late_library")
    sys.modules["late_library"] = late
    assert zstn.is_enabled()
    assert late.opener(shown, "np").keys()
    zstn.disable_hf()
    assert not zstn.is_enabled()
    assert (late.opener, late.deserialize) == ORIGINAL
    assert (early_safe_open, early_deserialize) == ORIGINAL
    assert safetensors.numpy.safe_open is ORIGINAL[0]
    assert sys.meta_path == finders
    # A second call has no effect.
    zstn.disable_hf()


def test_only_some_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chosen_library", "other_library"):
        (tmp_path / f"{name}.py").write_text("from safetensors import safe_open\n")
    monkeypatch.syspath_prepend(tmp_path)
    chosen, other = map(importlib.import_module, ("chosen_library", "other_library"))
    for modules in (["chosen_library"], "chosen_library.part", [chosen]):
        zstn.enable_hf(modules=modules)
        try:
            assert chosen.safe_open is safetensors.safe_open is not ORIGINAL[0]
            assert other.safe_open is ORIGINAL[0]
        finally:
            zstn.disable_hf()
        assert chosen.safe_open is ORIGINAL[0]
    with pytest.raises(ModuleNotFoundError, match="no package chosen_libary"):
        zstn.enable_hf(modules=["chosen_library", "chosen_libary"])
    assert not zstn.is_enabled() and chosen.safe_open is ORIGINAL[0]


def test_open_files_are_not_kept(enabled: None, shown: Path, tmp_path: Path) -> None:
    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    temporary = set(os.listdir(tmp_path)), set(os.listdir(shown.parent))
    safetensors.safe_open(shown, "np").keys()
    before = count()
    # The files are never closed; accelerate does the same with offloaded weights.
    for _ in range(50):
        safetensors.safe_open(shown, "np").get_tensor("ids")
    assert count() == before
    assert temporary == (set(os.listdir(tmp_path)), set(os.listdir(shown.parent)))


def run(program: str, *args: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program), *map(str, args)],
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_imported_for_it(shown: Path) -> None:
    run(
        """
        import sys, zstn
        zstn.enable_hf()
        for name in ("torch", "numpy", "transformers", "diffusers", "huggingface_hub"):
            assert name not in sys.modules, name
        from safetensors.numpy import load_file
        assert load_file(sys.argv[1])
        """,
        shown,
    )


def test_without_safetensors() -> None:
    run(
        """
        import sys
        sys.modules["safetensors"] = None
        import zstn
        try:
            zstn.enable_hf()
        except ImportError as error:
            assert "pip install safetensors" in str(error)
            assert not zstn.is_enabled()
        else:
            raise AssertionError
        """
    )


def test_an_unknown_transformers_is_named(tmp_path: Path, shown: Path) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "99.0"\n')
    (package / "modeling_utils.py").write_text("from safetensors import safe_open\n")
    program = """
        import sys, warnings, zstn
        zstn.enable_hf()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import transformers.modeling_utils
        assert "transformers 99.0" in str(caught[0].message), caught
        assert "snapshot_download" in str(caught[0].message)
        assert transformers.modeling_utils.safe_open(sys.argv[1], "np").keys()
    """
    run(program, shown, PYTHONPATH=str(tmp_path))


def test_z4ai_has_the_same_switch(shown: Path) -> None:
    import zstn.z4ai.integrations as integrations

    integrations.enable_hf()
    try:
        assert integrations.is_enabled()
        assert zstn.is_enabled()
        assert safetensors.numpy.load_file(shown)
    finally:
        integrations.disable_hf()
    assert not zstn.is_enabled()


def test_odd_entries_of_the_modules_do_not_matter(shown: Path) -> None:
    class Nameless(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            if name == "__name__":
                raise AttributeError(name)
            return super().__getattribute__(name)

    sys.modules["odd"] = Nameless("odd")
    sys.modules["odd"].open = safetensors.safe_open  # type: ignore[attr-defined]
    try:
        zstn.enable_hf()
        assert sys.modules["odd"].open(shown, "np").keys()  # type: ignore[attr-defined]
        zstn.disable_hf()
        assert sys.modules["odd"].open is ORIGINAL[0]  # type: ignore[attr-defined]
    finally:
        zstn.disable_hf()
        del sys.modules["odd"]


def test_an_unknown_version_of_a_library_is_imported_nevertheless(tmp_path: Path) -> None:
    pipelines = tmp_path / "diffusers" / "pipelines"
    pipelines.mkdir(parents=True)
    (tmp_path / "diffusers" / "__init__.py").touch()
    (pipelines / "__init__.py").touch()
    # This module lacks the methods that are wrapped.
    (pipelines / "pipeline_utils.py").write_text("class DiffusionPipeline: ...")
    program = """
        import sys, warnings, zstn
        sys.path.insert(0, sys.argv[1])
        zstn.enable_hf()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import diffusers.pipelines.pipeline_utils
        print(*(warning.message for warning in caught))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "does not know this version of diffusers" in done.stdout
