"""Reads tensors onto a GPU, with an emulator of NVIDIA's driver that runs the kernels on
the host. Tensors of torch are on the CPU, which shares its memory with the emulator.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from range_server import serve
from with_torch.conftest import assert_same_bits, bits
from with_torch.test_torch import DTYPES, make, make_tensors

import zstn
import zstn.torch
from zstn import _gpu

GPU = Path(__file__).parents[3] / "gpu"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Returns the emulator, which the package then finds as its driver."""
    library = tmp_path_factory.mktemp("driver") / "libcuda.so"
    subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-shared", "-fPIC", "-x", "c++"]
        + ["-Wl,-soname,libcuda.so", "-I", GPU / "kernels", GPU / "emulator/driver.cpp"]
        + ["-o", library],
        check=True,
    )
    driver = ctypes.CDLL(str(library))
    for function in (driver.emulator_lend, driver.emulator_take_back):
        function.argtypes = [ctypes.c_uint64, ctypes.c_size_t][: 2 if function is driver.emulator_lend else 1]
    return driver


class Emulated(_gpu.Gpu):
    """A GPU whose memory is that of the CPU."""

    type = "cpu"

    def __init__(self, driver: ctypes.CDLL, stream: int = 0) -> None:
        super().__init__(torch.device("cuda", 0))
        self.driver = driver
        self.tensors: list[torch.Tensor] = []
        self.own_stream = stream

    @property
    def stream(self) -> int:
        return self.own_stream

    def empty(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=dtype)
        # Bytes that no tensor has.
        ctypes.memset(tensor.data_ptr(), 0xA5, tensor.nbytes)
        self.driver.emulator_lend(tensor.data_ptr(), tensor.nbytes)
        self.tensors.append(tensor)
        return tensor

    def take_back(self) -> None:
        for tensor in self.tensors:
            self.driver.emulator_take_back(tensor.data_ptr())


@pytest.fixture
def gpu(driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """Makes `cuda` an emulated device, on which no tensor may be copied by torch."""
    emulated = Emulated(driver)
    monkeypatch.setattr(
        _gpu, "find", lambda framework, device: emulated if str(device)[:4] == "cuda" else None
    )
    yield emulated
    emulated.take_back()


def make_model() -> dict[str, torch.Tensor]:
    """Returns tensors of all dtypes, and normally distributed weights."""
    torch.manual_seed(3)
    weights = {
        f"weights {dtype}": (torch.randn(700, 300) * 0.02).to(dtype)
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn)
    }
    return {**make_tensors(), **weights}


@pytest.fixture(scope="module", params=["plain", "fast", "balanced", "max"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    if request.param == "plain":
        safetensors.torch.save_file(make_model(), folder / "m.safetensors")
        return folder / "m.safetensors"
    zstn.torch.save_file(make_model(), folder / "m.zstn", effort=request.param)
    return folder / "m.zstn"


def test_every_dtype(gpu: Emulated, path: Path) -> None:
    expected = make_model()
    assert len(DTYPES) == 20
    found = zstn.torch.load_file(path, "cuda")
    assert_same_bits(found, expected)
    assert {id(tensor) for tensor in found.values()} == {id(tensor) for tensor in gpu.tensors}
    # Tensors that share memory could not be stored.
    zstn.torch.save_file(found, path.with_name("again.zstn"))
    with zstn.safe_open(path, "pt", device=0) as file:
        for name, tensor in expected.items():
            assert bits(file.get_tensor(name)) == bits(tensor), name
    assert len(gpu.tensors) == 2 * len(expected)


def test_slices(gpu: Emulated, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = make_model()["weights torch.bfloat16"]
    indices = [..., slice(None), slice(100, 600), (slice(None), slice(1, 300, 2)), (None, ...)]
    with zstn.safe_open(path, "pt", device="cuda:0") as file:
        part = file.get_slice("weights torch.bfloat16")
        for index in indices:
            found = part[index]
            assert torch.equal(found, tensor[index]), index
            assert found.untyped_storage().nbytes() == found.nbytes, index
        assert len(gpu.tensors) == len(indices)
        half = file.get_slice("torch.float4_e2m1fn_x2")
        assert bits(half[...]) == bits(make_model()["torch.float4_e2m1fn_x2"])
        assert len(gpu.tensors) == len(indices) + 1
        # The CPU decodes small parts, and torch copies them.
        copied = []
        monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: copied.append(device) or tensor)
        for index in (slice(0, 10), (slice(None), 5), [3, 1, 2]):
            assert torch.equal(part[index], tensor[index]), index
        assert copied == ["cuda:0"] * 3
        assert len(gpu.tensors) == len(indices) + 1


def test_servers(gpu: Emulated, path: Path) -> None:
    expected = make_model()
    with serve(path.parent) as address:
        url = f"{address}/{path.name}"
        assert_same_bits(zstn.torch.load_file(url, "cuda"), expected)
        assert len(gpu.tensors) == len(expected)
        # Opening the file reads its header twice at most.
        assert address.sent() <= path.stat().st_size + 200_000
        with zstn.safe_open(url, "pt", device="cuda") as file:
            part = file.get_slice("weights torch.bfloat16")
            assert torch.equal(part[...], expected["weights torch.bfloat16"])
        assert len(gpu.tensors) == len(expected) + 1


def test_shards(gpu: Emulated, tmp_path: Path) -> None:
    tensors = {f"{number}.weight": make(torch.bfloat16, (64, 64), number) for number in range(4)}
    shards = [f"model-{number + 1:05}-of-00002.safetensors" for number in range(2)]
    (tmp_path / "plain").mkdir()
    for number, shard in enumerate(shards):
        names = list(tensors)[2 * number : 2 * number + 2]
        safetensors.torch.save_file({name: tensors[name] for name in names}, tmp_path / "plain" / shard)
    index = {name: shards[number // 2] for number, name in enumerate(tensors)}
    text = '{"metadata": {}, "weight_map": ' + str(index).replace("'", '"') + "}"
    (tmp_path / "plain/model.safetensors.index.json").write_text(text)
    zstn.pack(tmp_path / "plain", tmp_path / "packed")
    for folder in ("plain", "packed"):
        [path] = (tmp_path / folder).glob("*.index.json")
        assert_same_bits(zstn.torch.load_file(path, "cuda"), tensors)
    assert len(gpu.tensors) == 8


def test_damage_is_the_error_of_the_cpu(gpu: Emulated, tmp_path: Path) -> None:
    tensors = {"a": make_model()["weights torch.bfloat16"], "b": make(torch.int8, (5000,))}
    zstn.torch.save_file(tensors, tmp_path / "m.zstn")
    packed = (tmp_path / "m.zstn").read_bytes()
    refused = 0
    for at in range(200, len(packed), len(packed) // 40):
        damaged = bytearray(packed)
        damaged[at] ^= 0x18
        (tmp_path / "damaged.zstn").write_bytes(damaged)
        errors = []
        for device in ("cpu", "cuda"):
            try:
                assert_same_bits(zstn.torch.load_file(tmp_path / "damaged.zstn", device), tensors)
            except zstn.ZstnError as error:
                errors.append((error.code, str(error)))
        assert len(errors) in (0, 2), at
        assert len(set(errors)) <= 1, at
        refused += len(errors) // 2
    assert refused > 20


def test_work_of_the_current_stream_comes_first(
    driver: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch returns memory that unfinished work of the current stream may write to."""
    tensors = {"a": make(torch.bfloat16, (300, 300))}
    zstn.torch.save_file(tensors, tmp_path / "m.zstn")
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    garbage = ctypes.create_string_buffer(tensors["a"].nbytes)

    class Busy(Emulated):
        def empty(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
            tensor = super().empty(shape, dtype)
            to, length = ctypes.c_uint64(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes)
            assert driver.cuMemcpyHtoDAsync_v2(to, garbage, length, stream) == 0
            return tensor

    busy = Busy(driver, stream.value or 0)
    monkeypatch.setattr(_gpu, "find", lambda framework, device: busy)
    found = zstn.torch.load_file(tmp_path / "m.zstn", "cuda")
    assert driver.cuStreamSynchronize(stream) == 0
    assert driver.cuCtxSetCurrent(None) == 0
    assert_same_bits(found, tensors)
    busy.take_back()


def test_the_context_of_the_thread_stays(gpu: Emulated, driver: ctypes.CDLL, path: Path) -> None:
    contexts = []

    def read() -> None:
        other, current = ctypes.c_void_p(0x1234), ctypes.c_void_p()
        driver.cuCtxSetCurrent(other)
        zstn.torch.load_file(path, "cuda")
        zstn.torch.release_buffers()
        driver.cuCtxGetCurrent(ctypes.byref(current))
        driver.cuCtxSetCurrent(None)
        contexts.append(current.value)

    # Calls on other threads than the main one do their work on the same thread.
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert contexts == [0x1234]


def test_the_cpu_decodes_what_the_gpu_cannot(
    gpu: Emulated, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make_model()
    copied = []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: copied.append(device) or tensor)
    # There is one emulated GPU.
    monkeypatch.setattr(Emulated, "number", 1)
    assert_same_bits(zstn.torch.load_file(path, "cuda"), expected)
    assert copied == ["cuda"] * len(expected)
    # Too little memory is no reason to stop using the GPU.
    monkeypatch.setattr(Emulated, "number", 0)
    zstn.torch.release_buffers()
    monkeypatch.setenv("ZSTN_EMULATED_MEMORY_BYTES", "4096")
    assert_same_bits(zstn.torch.load_file(path, "cuda"), expected)
    assert copied == ["cuda"] * len(expected)


def test_tensors_without_memory_are_left_to_torch(gpu: Emulated, path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    expected = make_model()
    with FakeTensorMode():
        assert _gpu.find("torch", "cuda") is gpu
        with zstn.safe_open(path, "np") as file:
            name = "weights torch.bfloat16"
            info = file._find(name)
            fake = torch.empty(info.shape, dtype=torch.bfloat16)
            assert not _gpu._is_in_memory(gpu, info, fake)
    real = torch.empty(expected[name].shape, dtype=torch.bfloat16)
    assert _gpu._is_in_memory(gpu, info, real)
    assert not _gpu._is_in_memory(gpu, info, real.to("meta"))
    assert not _gpu._is_in_memory(gpu, info, real[1:])


@pytest.mark.parametrize(
    ("framework", "device", "is_found"),
    [("torch", "cuda", True), ("torch", "cuda:1", True), ("torch", torch.device("cuda", 0), True),
     ("torch", "cpu", False), ("torch", None, False), ("torch", "meta", False), ("numpy", "cuda", False)],
)  # fmt: skip
def test_devices(
    framework: str, device: Any, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.delenv("ZSTN_GPU", raising=False)
    assert _gpu.find(framework, device) is None
    monkeypatch.setenv("ZSTN_GPU", "1")
    assert (_gpu.find(framework, device) is not None) == is_found
    monkeypatch.setattr(torch.version, "cuda", None)
    assert _gpu.find(framework, device) is None
