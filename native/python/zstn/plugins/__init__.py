"""Plug-ins for other programs. The inference engines find theirs through entry points:
`zstn.plugins.vllm` and `zstn.plugins.sglang`. Giftless, a git-lfs server, is configured
with `zstn.plugins.giftless`."""
