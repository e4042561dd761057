"""Tests of z4ai 0.2.0 that are skipped with `zstn.z4ai`, and the reasons."""

#: Whole test files.
FILES: dict[str, str] = {
    "test_accel.py": "_accel, the C extension of z4ai",
    "test_bitfield.py": "bitfield, a stage of z4ai's codec",
    "test_block_decode_tolerance.py": "backend, how z4ai chooses between zstd frames and blocks",
    "test_block_parallel_fuzz.py": "backend, how z4ai cuts planes into blocks",
    "test_cli.py": "cli; the command line of zstn is another one",
    "test_cli_entrypoint.py": "cli; the command line of zstn is another one",
    "test_effort_fast_decode.py": "backend, the methods that z4ai's encoder chooses",
    "test_native_bf16.py": "_accel, the C extension of z4ai",
    "test_native_codec.py": "the C extension of z4ai",
    "test_rans.py": "rans, streams without a frame of their own",
}

#: Single tests.
TESTS: dict[str, str] = {
    "test_bf16_decode_pref.py::test_bf16_dense_transform_choice": "a private constant of codec",
    "test_bf16_decode_pref.py::test_bf16_decode_preference_costs_little_ratio": "a private "
    "constant of codec",
    "test_effort_max.py::test_chunk_parallel_brotli_matches_whole": "a private function of auto",
    "test_max_ratio_mode.py::test_max_ratio_entropy_coder_helps": "backend, a stage of z4ai's "
    "encoder",
    "test_model_delta.py::test_wrong_base_is_rejected": "the words of the message; test_z4ai.py "
    "has the refusal",
    "test_structured_win.py::test_detector_fires_on_structured_not_iid": "backend, a stage of "
    "z4ai's encoder",
}
