"""Tools for people who run a model hub with packed checkpoints.

- ``python -m zstn_hub`` packs all checkpoints of a hub, on one or many machines;
  `zstn_hub.job` has the functions of these commands.
- `zstn_hub.simulation` estimates how long such a job takes and what it costs.
- `zstn_hub.giftless` makes the git-lfs server Giftless store objects packed.
"""

__version__ = "0.1.0"
