# In its absence the checker would take our module of that name for it.
from typing import Any

def __getattr__(name: str) -> Any: ...
