"""Exchanges models with the real compressed-tensors 0.13.0, bit for bit.

`cargo xtask compressed` prepares everything and runs this script. The package reads sparse models
that we wrote. We read random models that the package quantised, and compare the result with its
own reader.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import tempfile

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file, save_file

OURS = os.environ["ZSTN_COMPRESSED"]
MODULES = ["model.layers.0.proj", "model.layers.1.proj"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn]

# Format, arguments of the weights, dtype of weights and scales.
SCHEMES = [
    *(
        (form, {"num_bits": bits, "strategy": strategy, "symmetric": symmetric}, dtype)
        for form, widths in {"int-quantized": [8], "naive-quantized": [4, 6, 8], "pack-quantized": [4, 8]}.items()
        for bits in widths
        for strategy in ["tensor", "channel", "group"]
        for symmetric in [True, False]
        for dtype in [torch.float32, torch.float16, torch.bfloat16]
    ),
    *(("pack-quantized", {"num_bits": b, "strategy": "channel"}, torch.bfloat16) for b in [2, 3, 5, 6, 7]),
    *(
        (form, {"num_bits": 8, "type": "float", "strategy": strategy}, dtype)
        for form in ["float-quantized", "naive-quantized"]
        for strategy in ["tensor", "channel", "group", "block"]
        for dtype in [torch.float32, torch.float16, torch.bfloat16]
    ),
    ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group"}, torch.bfloat16),
]


def run_ours(*arguments):
    done = subprocess.run([OURS, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def pattern(tensor):
    """Dtype, shape and bytes, so that NaN payloads and negative zeros are compared."""
    return str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(read, truth, where):
    assert sorted(read) == sorted(truth), f"{where}: {sorted(read)} instead of {sorted(truth)}"
    for name, tensor in truth.items():
        assert pattern(read[name]) == pattern(tensor), f"{where}: {name} differs"


def pruned(random, shape, dtype, fours):
    """A tensor whose elements are half zeros, per group of four columns or at random,
    and include some special values."""
    tensor = torch.randn(shape, generator=random) * 20
    if fours:
        order = torch.rand(*shape[:-1], shape[-1] // 4, 4, generator=random).argsort(-1)
        tensor = torch.where((order < 2).reshape(shape), tensor, 0.0)
    else:
        tensor = torch.where(torch.rand(shape, generator=random) < 0.3, tensor, 0.0)
    tensor = tensor.to(dtype)
    if dtype.is_floating_point and not fours:
        tensor.reshape(-1)[:2] = torch.tensor([-0.0, float("nan")]).to(dtype)
    return tensor


def sparse(random):
    """Checks that the package reads sparse models that we wrote."""
    tensors = 0
    for form in ["sparse-bitmask", "sparse-24-bitmask"]:
        fours = form == "sparse-24-bitmask"
        truth = {}
        for dtype in DTYPES:
            for rows, columns in [(1, 1024), (64, 96), (33, 260), (300, 128)]:
                name = f"{str(dtype)[6:]}.{rows}.weight"
                truth[name] = pruned(random, (rows, columns), dtype, fours)
        truth["dense.weight"] = torch.randn(40, 40, generator=random)
        truth["dense.bias"] = torch.zeros(400)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            save_file(truth, folder / "dense.safetensors")
            model = folder / "model"
            model.mkdir()
            written = int(run_ours("write", folder / "dense.safetensors", model, form))
            # A 2:4 mask takes an eighth of a byte matrix and removes half of it, so every matrix
            # becomes smaller.
            assert written == len(truth) - 2, f"{form}: only {written} tensors are sparse"
            config = json.loads((model / "config.json").read_text())["quantization_config"]
            assert config["sparsity_config"]["format"] == form
            same(dict(BaseCompressor.load_from_registry(form).decompress(str(model))), truth, f"package, {form}")
            run_ours("read", model, folder / "back.safetensors")
            same(load_file(folder / "back.safetensors"), truth, f"ours, {form}")
        tensors += written
    return tensors


def parameters(random, weight, arguments, dtype):
    """Random scales and zero points with the shapes that a scheme requires."""
    rows, columns = weight.shape
    group, (high, wide) = arguments.group_size or columns, arguments.block_structure or (rows, columns)
    shape = {
        "tensor": (1,),
        "channel": (rows, 1),
        "group": (rows, columns // group),
        "tensor_group": (rows, columns // group),
        "block": (-(-rows // high), -(-columns // wide)),
    }[arguments.strategy]
    largest = 2.0 ** (arguments.num_bits - 1)
    made = {"weight_scale": ((torch.rand(shape, generator=random) + 0.5) * 3 / largest).to(dtype)}
    if arguments.strategy == "tensor_group":
        made["weight_global_scale"] = torch.rand(1, generator=random) * 100 + 400
        # The package itself converts it to an 8-bit float.
        made["weight_scale"] = (torch.rand(shape, generator=random) * 300 + 50).to(dtype)
    if not arguments.symmetric:
        low = -int(largest)
        made["weight_zero_point"] = torch.randint(low, -low, shape, generator=random, dtype=torch.int8)
    return made


def quantised(random, form, arguments, dtype):
    """Checks that we read weights quantised by the package as the package itself does."""
    more = {
        "group": {"group_size": 32},
        "tensor_group": {"group_size": 16, "scale_dtype": torch.float8_e4m3fn},
        "block": {"block_structure": [16, 32]},
    }
    arguments = QuantizationArgs(**arguments, **more.get(arguments["strategy"], {}))
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    schemes = dict.fromkeys(MODULES, scheme)
    state = {}
    for number, module in enumerate(MODULES):
        weight = torch.randn([48, 64][number], [96, 160][number], generator=random).to(dtype)
        state[f"{module}.weight"] = weight
        for name, tensor in parameters(random, weight, arguments, dtype).items():
            state[f"{module}.{name}"] = tensor
    compressor = BaseCompressor.load_from_registry(form)
    stored = compressor.compress({name: tensor.clone() for name, tensor in state.items()}, schemes)
    config = {
        "quant_method": "compressed-tensors",
        "version": importlib.metadata.version("compressed-tensors"),
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": json.loads(scheme.model_dump_json())},
        "ignore": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_file({name: tensor.contiguous() for name, tensor in stored.items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
        theirs = {
            f"{module}.weight": parts["weight"] for module, parts in compressor.decompress(str(folder), schemes)
        }
        assert len(theirs) == len(MODULES)
        run_ours("read", folder, folder / "dense.safetensors")
        ours = load_file(folder / "dense.safetensors")
    same({name: ours.get(name) for name in theirs}, theirs, f"{form}, {arguments}")
    return len(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="random models of each scheme")
    options = parser.parse_args()
    random = torch.Generator().manual_seed(options.seed)
    print(f"compressed-tensors {importlib.metadata.version('compressed-tensors')}, PyTorch {torch.__version__}")
    written = sum(sparse(random) for _ in range(options.rounds))
    print(f"{written} sparse tensors that we wrote are read by the package as they were")
    read, refused = 0, {}
    for form, arguments, dtype in SCHEMES:
        for _ in range(options.rounds):
            try:
                read += quantised(random, form, arguments, dtype)
            except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                # The package itself cannot read this model; differences would be assertion
                # errors.
                refused[f"{form}, {arguments}, {dtype}"] = f"{type(error).__name__}: {error}"
    print(f"{read} weights that the package quantised are read by us as it reads them")
    for what, why in refused.items():
        print(f"not compared, for the package fails: {what}: {why}")
    assert read, "nothing was compared"


if __name__ == "__main__":
    main()
