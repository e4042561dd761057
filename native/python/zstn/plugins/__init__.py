"""Plug-ins for the inference engines vLLM and SGLang, which find theirs through entry
points."""
