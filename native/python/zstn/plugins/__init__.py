"""Plug-ins of programs that serve models, which find them by their entry
points: `zstn.plugins.vllm` and `zstn.plugins.sglang`."""
