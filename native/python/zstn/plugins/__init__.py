"""Plug-ins for the inference engines vLLM and SGLang, which load them through entry
points."""
