"""Conversion of errors to one-sentence messages."""

from __future__ import annotations

import re
from typing import Any

from .._errors import ZstnError

_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def sentence(error: Exception) -> str | None:
    """Returns the message for an error; `None` if the error is a defect of this
    program."""
    # The outer error of a failed upload or download only names the file; the hub's
    # response, further inside, contains the reason.
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, ZstnError):
        if hasattr(reason, "server_message"):
            from huggingface_hub import get_token

            return _refusal(reason, bool(get_token()))
        # huggingface_hub uses httpx or httpx2, depending on its version.
        if type(reason).__module__.startswith("httpx"):
            return f"the hub does not answer: {_line(str(reason)) or type(reason).__name__}"
        reason = reason.__cause__ or reason.__context__
    if isinstance(error, ZstnError | OSError | ValueError | ImportError | RuntimeError):
        return _line(str(error))
    return None


def _refusal(error: Any, has_token: bool) -> str:
    from huggingface_hub import errors

    status = error.response.status_code
    what = _repository(error)
    said = _line(error.server_message or "")
    if isinstance(error, errors.GatedRepoError):
        if not has_token:
            return f"{what} is gated: {_LOG_IN}, with an account that has access"
        return f"{what} is gated and your account has no access; ask for it on the page of {what}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{what} has no such revision; give a branch, a tag or a commit that it has"
    if isinstance(error, errors.EntryNotFoundError):
        return f"{what} has no such file; `hf zstn ls {what}` lists those that it has"
    if status == 401 and has_token and "credentials" in said:
        return (
            f"{what}: the hub does not accept your token; log in again with `hf auth login`, or "
            "correct HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        if has_token:
            kind, slash, name = what.partition("s/") if what.count("/") > 1 else ("", "", what)
            more = f" --repo-type {kind}" if slash else ""
            return (
                f"there is no repository {what}, or your account may not see it; "
                f"`hf repos create {name}{more}` makes it"
            )
        return f"there is no repository {what}, or it is private: {_LOG_IN}"
    if status == 401:
        return f"{what}: the hub requires a login; {_LOG_IN}"
    if status == 403:
        access = "read" if error.response.request.method in ("GET", "HEAD") else "write"
        return f"{what}: your token may not do this; {said or f'it needs {access} access'}"
    if status == 412:
        return (
            f"{what} has had another commit since this began, so nothing was committed; "
            "run the command again: uploaded files are not sent again"
        )
    return f"{what}: the hub answered {status}: {said or error.response.reason_phrase}"


def _repository(error: Any) -> str:
    """Returns the name of the repository that a request accessed."""
    path = error.response.url.path
    match = re.match(
        r"/(?:api/)?(?P<type>models/|datasets/|spaces/)?(?P<name>[^/]+/[^/]+?)(?:\.git)?(?:/|$)",
        path,
    )
    if match is None:
        return "the hub"
    prefix = match["type"] if match["type"] != "models/" else ""
    return f"{prefix or ''}{match['name']}"


def _line(text: str) -> str:
    """Returns a text on a single line, without a full stop at its end."""
    return " ".join(text.split()).rstrip(".")
