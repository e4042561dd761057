# Without this stub, the type checker would mistake zstn's module of this name for
# transformers.
from typing import Any

def __getattr__(name: str) -> Any: ...
