"""Plug-ins of other programs. Those that serve models find theirs by entry points:
`zstn.plugins.vllm` and `zstn.plugins.sglang`. Giftless, a git-lfs server, is
configured with `zstn.plugins.giftless`."""
