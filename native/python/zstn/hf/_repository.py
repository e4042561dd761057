"""Names of repositories, and requests to the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from .._errors import ZstnError
from ..hub._download import hub as library

_TYPES = {"models": "model", "datasets": "dataset", "spaces": "space"}

_NAME = re.compile(
    r"(?:hf://)?(?:(?P<type>models|datasets|spaces)/)?(?P<name>[\w.-]+/[\w.-]+)"
    r"(?:@(?P<revision>refs/[^/]+/[^/]+|[^/]+))?(?:/(?P<path>.+))?"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, a revision and optionally a file."""

    name: str
    repo_type: str
    revision: str | None
    path: str | None

    @classmethod
    def parse(cls, text: str, revision: str | None, repo_type: str | None) -> Place:
        """Parses ``OWNER/NAME@REVISION/FILE``; everything except the name is optional.
        """
        match = _NAME.fullmatch(text.rstrip("/"))
        if match is None:
            raise ZstnError(f"{text} is not a repository; write OWNER/NAME or OWNER/NAME/FILE")
        if match["revision"] and revision and match["revision"] != revision:
            raise ZstnError(f"{text} has another revision than --revision {revision}")
        named_type = _TYPES[match["type"]] if match["type"] else None
        return cls(
            match["name"],
            repo_type or named_type or "model",
            revision or match["revision"],
            match["path"],
        )

    def __str__(self) -> str:
        return f"{self.prefix}{self.name}"

    @property
    def prefix(self) -> str:
        return "" if self.repo_type == "model" else f"{self.repo_type}s/"

    @property
    def revision_or_main(self) -> str:
        return self.revision or "main"

    def address(self, path: str, commit: str | None = None) -> str:
        """Returns the address of a file, for `zstn.open` and `zstn.pack`."""
        revision = quote(commit or self.revision_or_main, safe="")
        return f"hf://{self.prefix}{self.name}@{revision}/{path}"


class Hub:
    """The hub at ``HF_ENDPOINT``, with the token of the logged-in user."""

    @cached_property
    def token(self) -> str | None:
        return library().get_token()

    def __init__(self) -> None:
        version = library().__version__
        if int(version.partition(".")[0]) < 1:
            raise ZstnError(f"huggingface_hub is {version}, and 1.0 or later is needed")

    @cached_property
    def api(self) -> Any:
        return library().HfApi(token=self.token or False, library_name="zstn")

    @property
    def endpoint(self) -> str:
        return self.api.endpoint

    def headers(self) -> dict[str, str]:
        from huggingface_hub.utils import build_hf_headers

        return build_hf_headers(token=self.token or False, library_name="zstn")

    def address(self, place: Place, call: str, revision: str | None = None) -> str:
        """Returns the URL of an API call for a repository."""
        revision = quote(revision or place.revision_or_main, safe="")
        return f"{self.endpoint}/api/{place.repo_type}s/{place.name}/{call}/{revision}"

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Sends a request, and raises huggingface_hub's error if it is refused."""
        from huggingface_hub.utils import get_session, hf_raise_for_status

        headers = {**self.headers(), **options.pop("headers", {})}
        answer = get_session().request(method, url, headers=headers, **options)
        hf_raise_for_status(answer)
        return answer

    def info(self, place: Place) -> Any:
        """Returns the commit of a revision, and its files with their sizes and digests.
        """
        return self.api.repo_info(
            place.name,
            repo_type=place.repo_type,
            revision=place.revision,
            files_metadata=True,
        )
