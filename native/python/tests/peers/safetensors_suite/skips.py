"""Tests of safetensors 0.8.0 that are skipped with zstn, and the reasons."""

from importlib.util import find_spec

#: Whole test files.
FILES: dict[str, str] = {
    "test_flax_comparison.py": "needs jax and flax",
    "test_mlx_comparison.py": "needs mlx",
    "test_paddle_comparison.py": "needs paddle",
    "test_tf_comparison.py": "needs TensorFlow",
    "test_threadable.py": "serialize_file, which takes raw pointers and which zstn does not have",
}

#: Single tests.
TESTS: dict[str, str] = {
    "test_simple.py::test_numpy_slice": "demands errors where zstn answers as NumPy does "
    "(`[[0, 1]]`, `[:20]`), and their words; test_safe_open.py has these calls one by one",
    "test_pt_comparison.py::test_sparse": "demands the words of the error; "
    "with_torch/test_torch.py has the call",
    "test_simple.py::test_exception": "TensorSpec, which holds raw pointers and which zstn does "
    "not have",
}

if find_spec("torch") is None:
    FILES |= {
        "test_pread_backend.py": "all of it needs torch; test_safe_open.py opens with both backends",
        "test_pt_comparison.py": "needs torch",
        "test_pt_model.py": "needs torch",
    }
    TESTS |= {
        "test_simple.py::test_file_not_found": "needs torch; test_safe_open.py has it for numpy",
    }
