"""Prints the PTX of all kernels, compiled by NVRTC.

NVRTC is the library in the package that `requirements.txt` names. It needs no GPU, no
driver and no CUDA toolkit.
"""

import ctypes
import glob
import os
import sys

from nvidia import cuda_nvrtc

# The oldest GPUs that the kernels support have compute capability 8.0 (Ampere).
OPTIONS = [b"--gpu-architecture=compute_80", b"--std=c++17"]


def main() -> None:
    kernels = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
    [library] = glob.glob(os.path.join(list(cuda_nvrtc.__path__)[0], "lib", "libnvrtc.so.*"))
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [*OPTIONS, b"-I" + kernels.encode()]
    with open(os.path.join(kernels, "kernels.cu"), "rb") as file:
        source = file.read()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    arguments = (ctypes.c_char_p * len(options))(*options)
    if nvrtc.nvrtcCompileProgram(program, len(options), arguments):
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    sys.stdout.write(text.value.decode())


if __name__ == "__main__":
    main()
