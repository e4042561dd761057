"""Compares `zstn.torch` and `zstn.safe_open` with safetensors, using torch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from test_safe_open import ALIKE, FAIL_ALIKE, TENSORS
from with_torch.conftest import assert_same_bits, bits

import zstn
import zstn.torch

#: Every dtype of torch that has a name in safetensors.
DTYPES = [
    dtype
    for name in (
        "bool uint8 int8 int16 uint16 float16 bfloat16 int32 uint32 float32 complex64 float64 "
        "int64 uint64 float8_e5m2 float8_e4m3fn float8_e8m0fnu float8_e5m2fnuz float8_e4m3fnuz "
        "float4_e2m1fn_x2"
    ).split()
    if (dtype := getattr(torch, name, None)) is not None
]


def make(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Returns a tensor of random bits, which include NaN."""
    torch.manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    size = torch.empty((), dtype=dtype).element_size()
    data = torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8)
    return data.view(dtype)


def make_tensors() -> dict[str, torch.Tensor]:
    tensors = {str(dtype): make(dtype, (7, 6)) for dtype in DTYPES}
    return {**tensors, "large": make(torch.bfloat16, (300, 256)), "cube": make(torch.int16, (3, 4, 5)),
            "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
            "empty": torch.empty((0, 3), dtype=torch.float16)}  # fmt: skip


@pytest.fixture(scope="module")
def tensors() -> dict[str, torch.Tensor]:
    return make_tensors()


def test_these_are_all_dtypes_of_torch(tensors: dict[str, torch.Tensor]) -> None:
    assert len(DTYPES) == 20


def test_plain_files_are_those_of_safetensors(
    tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    metadata = {"format": "pt"}
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    zstn.torch.save_file(tensors, ours, metadata)
    safetensors.torch.save_file(tensors, theirs, metadata)
    assert ours.read_bytes() == theirs.read_bytes()
    assert zstn.torch.save(tensors, metadata) == theirs.read_bytes()
    assert_same_bits(zstn.torch.load_file(theirs), tensors)
    assert_same_bits(zstn.torch.load(theirs.read_bytes()), tensors)
    assert_same_bits(safetensors.torch.load_file(ours), tensors)


@pytest.mark.parametrize("effort", ["fast", "balanced", "max"])
def test_packed_files(tensors: dict[str, torch.Tensor], tmp_path: Path, effort: str) -> None:
    path = tmp_path / "model.zstn"
    zstn.torch.save_file(tensors, path, {"format": "pt"}, effort=effort)
    assert_same_bits(zstn.torch.load_file(path), tensors)
    assert_same_bits(zstn.torch.load_file(path, "cpu", backend="pread"), tensors)
    data = zstn.torch.save(tensors, {"format": "pt"}, format="zstn", effort=effort)
    assert_same_bits(zstn.torch.load(data), tensors)
    # The packed files restore the bytes that safetensors writes.
    zstn.unpack(path, tmp_path / "restored.safetensors")
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors", {"format": "pt"})
    restored = (tmp_path / "restored.safetensors").read_bytes()
    assert restored == (tmp_path / "theirs.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_of_every_dtype(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = make(dtype, (9, 4))
    plain, packed = tmp_path / "a.safetensors", tmp_path / "a.zstn"
    safetensors.torch.save_file({"t": tensor}, plain)
    zstn.pack(plain, packed)
    for path in (plain, packed):
        with zstn.safe_open(path, "pt") as ours, safetensors.safe_open(plain, "pt") as theirs:
            one, other = ours.get_slice("t"), theirs.get_slice("t")
            assert one.get_shape() == other.get_shape()
            assert one.get_dtype() == other.get_dtype()
            for index in (slice(2, 5), ..., (slice(0, 9, 3), slice(None)), 4):
                found = one[index].view(torch.uint8)
                assert torch.equal(found, tensor.view(torch.uint8)[index])
                # safetensors does not slice elements of four bits.
                if one.get_dtype() != "F4":
                    assert torch.equal(found, other[index].view(torch.uint8))


class TestCalls:
    """The calls of ../test_safe_open.py, with torch."""

    @pytest.fixture(params=["plain", "packed"])
    def files(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
        tensors = {name: torch.from_numpy(array.copy()) for name, array in TENSORS.items()}
        plain, packed = tmp_path / "m.safetensors", tmp_path / "m.zstn"
        safetensors.torch.save_file(tensors, plain, {"a": "1"})
        zstn.pack(plain, packed)
        return plain, plain if request.param == "plain" else packed

    @staticmethod
    def outcome(opener: Any, path: Path, call: Callable[[Any], Any]) -> Any:
        def comparable(result: Any) -> Any:
            if isinstance(result, torch.Tensor):
                return result.dtype, result.shape, bits(result)
            if isinstance(result, dict):
                return {key: comparable(value) for key, value in result.items()}
            return result

        try:
            return comparable(call(opener(path, "pt")))
        except Exception as error:
            return error

    @pytest.mark.parametrize("name", ALIKE)
    def test_answers_alike(self, files: tuple[Path, Path], name: str) -> None:
        theirs = self.outcome(safetensors.safe_open, files[0], ALIKE[name])
        ours = self.outcome(zstn.safe_open, files[1], ALIKE[name])
        assert not isinstance(theirs, Exception)
        assert ours == theirs

    @pytest.mark.parametrize("name", FAIL_ALIKE)
    def test_fails_alike(self, files: tuple[Path, Path], name: str) -> None:
        call, words = FAIL_ALIKE[name]
        for opener, path in ((safetensors.safe_open, files[0]), (zstn.safe_open, files[1])):
            error = self.outcome(opener, path, call)
            # safetensors passes most indices to torch, which raises its own errors.
            assert isinstance(error, safetensors.SafetensorError | IndexError)
            assert words in str(error)


def test_tensors_are_writable_and_own_their_memory(
    tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    zstn.torch.save_file(tensors, tmp_path / "model.zstn")
    found = zstn.torch.load_file(tmp_path / "model.zstn")
    again = zstn.torch.load_file(tmp_path / "model.zstn")
    for name, tensor in found.items():
        if tensor.numel():
            tensor.view(torch.uint8).zero_() if tensor.dim() else tensor.zero_()
            assert tensor.data_ptr() % 64 == 0, name
    assert_same_bits(again, tensors)


def test_a_tensor_is_made_on_the_memory_that_was_read(tmp_path: Path) -> None:
    zstn.torch.save_file({"a": make(torch.float32, (64, 64))}, tmp_path / "model.zstn")
    with zstn.open(tmp_path / "model.zstn") as model:
        memory = model.read("a")
        raw = torch.frombuffer(memory, dtype=torch.uint8)
        raw.zero_()
        assert not any(memoryview(memory))


MEASURE = """
    import sys, torch, zstn, zstn.torch
    if sys.argv[1] == "transformers":
        from transformers import AutoModelForCausalLM
        zstn.enable_hf()
        def load(path):
            model = AutoModelForCausalLM.from_pretrained(path)
            return model, [*model.state_dict().values()]
    else:
        def load(path):
            tensors = zstn.torch.load_file(path + "/model.zstn")
            return tensors, [*tensors.values()]

    def status(name):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

    # What is imported and started for a first model is not what is measured.
    load(sys.argv[2])
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    kept, tensors = load(sys.argv[3])
    peak = status("VmHWM") - before
    sizes = {tensor.data_ptr(): tensor.nbytes for tensor in tensors}
    print(peak, sum(sizes.values()), max(sizes.values()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("how", "tensors_more"),
    [("load_file", 1), ("transformers", 2)],
)
def test_peak_memory(tmp_path: Path, how: str, tensors_more: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    for name, hidden, layers, words in (("small", 32, 1, 100), ("large", 1024, 4, 24_000)):
        config = LlamaConfig(
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            vocab_size=words,
            tie_word_embeddings=True,
            dtype="bfloat16",
        )
        model = LlamaForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(tmp_path / f"{name}-plain")
        zstn.pack(tmp_path / f"{name}-plain", tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURE), how, tmp_path / "small", tmp_path / "large"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak, size, largest = map(int, done.stdout.split())
    print(f"{how}: peak {peak}, tensors {size}, the largest {largest}")
    assert size > 100_000_000
    assert peak < size + tensors_more * largest


class TestRefused:
    def test_memory_that_is_shared(self, tmp_path: Path) -> None:
        whole = torch.zeros(10, 10)
        for tensors in (
            {"a": whole, "b": whole},
            {"a": whole, "b": whole[2:4]},
            {"a": whole[2:4], "b": whole[3:9], "c": whole[9:]},
            {"a": whole[5:7], "b": whole[:1], "c": whole},
        ):
            with pytest.raises(RuntimeError, match="share memory"):
                zstn.torch.save_file(tensors, tmp_path / "a.zstn")
            with pytest.raises(RuntimeError):
                safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
        assert not list(tmp_path.iterdir())

    def test_parts_that_do_not_overlap_are_not_shared(self, tmp_path: Path) -> None:
        whole = make(torch.float32, (10, 10))
        tensors = {"a": whole[5:7], "b": whole[:5], "c": whole[7:], "d": whole[3:3]}
        zstn.torch.save_file(tensors, tmp_path / "a.zstn")
        assert_same_bits(zstn.torch.load_file(tmp_path / "a.zstn"), tensors)

    @pytest.mark.parametrize(
        "tensor",
        [torch.zeros(3, 4).t(), torch.zeros(2, 3).to_sparse(), [1, 2], torch.zeros(2, dtype=torch.complex128)],
        ids=["transposed", "sparse", "list", "complex128"],
    )  # fmt: skip
    def test_what_safetensors_refuses(self, tmp_path: Path, tensor: object) -> None:
        for save_file in (safetensors.torch.save_file, zstn.torch.save_file):
            with pytest.raises((ValueError, KeyError)):
                save_file({"a": tensor}, tmp_path / "a.safetensors")


class Rows(torch.utils.data.Dataset):
    """Rows of a tensor, for a `DataLoader` whose workers are spawned."""

    def __init__(self, tensor: zstn.Slice[torch.Tensor]) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        return len(self._tensor)

    def __getitem__(self, row: int) -> torch.Tensor:
        return self._tensor[row]


def test_a_data_loader_with_spawned_workers(tmp_path: Path) -> None:
    rows = make(torch.bfloat16, (60, 8))
    zstn.torch.save_file({"rows": rows}, tmp_path / "a.zstn")
    with zstn.open(tmp_path / "a.zstn") as model:
        loader = torch.utils.data.DataLoader(
            Rows(model.slice("rows", "torch")), batch_size=7, num_workers=2, multiprocessing_context="spawn"
        )
        assert_same_bits({"rows": torch.cat(list(loader))}, {"rows": rows})
