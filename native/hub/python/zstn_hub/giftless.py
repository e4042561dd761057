"""git-lfs objects that are stored packed, for the server Giftless (docs/git-lfs.md).

Two transfer adapters share a folder: ``zstn`` for clients with the agent of ``zstn lfs
install``, which send and receive packed objects, and ``basic`` for all others, which
send and receive the originals::

    TRANSFER_ADAPTERS:
      zstn:
        factory: zstn_hub.giftless:packed
        options: {path: /srv/lfs}
      basic:
        factory: zstn_hub.giftless:original
        options: {path: /srv/lfs}

This module is written for Giftless 0.6.2.
"""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Callable
from typing import IO, Any, TypeVar, cast

import marshmallow
from flask import Flask, Response, current_app, request, send_file, url_for
from flask_classful import route
from giftless.auth.identity import Permission
from giftless.exc import InvalidPayload, NotFound
from giftless.schema import ObjectSchema
from giftless.transfer import PreAuthorizingTransferAdapter
from giftless.view import BaseView, ViewProvider
from webargs.flaskparser import parser
from werkzeug.wsgi import FileWrapper

from ._lfs_objects import PIECE_BYTES, ObjectError, ObjectFolder, Original

__all__ = ["original", "packed"]

_NAME = "zstn"
_BINARY = "application/octet-stream"
#: Maximum length of a list of objects that is read. git-lfs sends shorter lists, with
#: 100 objects each.
_MAX_BATCH_BYTES = 4 << 20
#: Default lifetime of transfer addresses. An upload address is issued before the agent
#: packs the object, which takes a while.
_LIFETIME_SECONDS = 3600
T = TypeVar("T")


class _ObjectsView(BaseView):  # type: ignore[misc]
    """Handlers of requests for objects. Flask-Classful routes to the public methods."""

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder

    def put(self, organization: str, repo: str, oid: str) -> Response:
        self._check_authorization(organization, repo, Permission.WRITE, oid=oid)
        stream = cast("IO[bytes]", request.stream)
        _checked(lambda: self._add(posixpath.join(organization, repo), oid, stream))
        return Response(status=200)

    def get(self, organization: str, repo: str, oid: str) -> Response:
        self._check_authorization(organization, repo, Permission.READ, oid=oid)
        prefix = posixpath.join(organization, repo)
        if not _checked(lambda: self._folder.exists(prefix, oid)):
            raise NotFound("the object is not there")
        return _checked(lambda: self._send(prefix, oid))

    @route("/verify", methods=["POST"])  # type: ignore[untyped-decorator]
    def verify(self, organization: str, repo: str) -> Response:
        """Checks that an object exists. Its size is not compared, because the request
        contains the size of the original."""
        schema = ObjectSchema(unknown=marshmallow.EXCLUDE)
        oid = parser.parse(schema)["oid"]
        self._check_authorization(organization, repo, Permission.READ_META, oid=oid)
        if not _checked(lambda: self._folder.exists(posixpath.join(organization, repo), oid)):
            raise InvalidPayload("the object is not there")
        return Response(status=200)

    def _add(self, prefix: str, oid: str, stream: IO[bytes]) -> None:
        raise NotImplementedError

    def _send(self, prefix: str, oid: str) -> Response:
        raise NotImplementedError


class PackedObjectsView(_ObjectsView):
    """Serves objects as they are stored, without restoring them."""

    route_base = "objects/zstn/packed"

    def _add(self, prefix: str, oid: str, stream: IO[bytes]) -> None:
        self._folder.add_stored(prefix, oid, stream)

    def _send(self, prefix: str, oid: str) -> Response:
        return send_file(
            self._folder.path(prefix, oid).absolute(), mimetype=_BINARY, conditional=True
        )


class OriginalObjectsView(_ObjectsView):
    """Serves the originals of objects."""

    route_base = "objects/zstn/original"

    def _add(self, prefix: str, oid: str, stream: IO[bytes]) -> None:
        self._folder.add_plain(prefix, oid, stream)

    def _send(self, prefix: str, oid: str) -> Response:
        file: Original = self._folder.open_original(prefix, oid)
        response = Response(
            FileWrapper(cast("IO[bytes]", file), PIECE_BYTES),
            mimetype=_BINARY,
            direct_passthrough=True,
        )
        response.content_length = file.size
        response.set_etag(oid)
        return response.make_conditional(
            request.environ, accept_ranges=True, complete_length=file.size
        )


class Adapter(PreAuthorizingTransferAdapter, ViewProvider):  # type: ignore[misc]
    """A transfer adapter for objects in a folder."""

    def __init__(
        self, folder: ObjectFolder, view: type[_ObjectsView], lifetime_seconds: int
    ) -> None:
        super().__init__()
        self._folder = folder
        self._view = view
        self._lifetime_seconds = lifetime_seconds

    def upload(
        self,
        organization: str,
        repo: str,
        oid: str,
        size: int,
        extra: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {"oid": oid, "size": size}
        if self._exists(organization, repo, oid):
            return answer
        lifetime = self._lifetime_seconds
        verify_lifetime = self.VERIFY_LIFETIME
        answer["actions"] = {
            "upload": self._action("put", organization, repo, oid, "write", lifetime),
            "verify": self._action("verify", organization, repo, oid, "verify", verify_lifetime),
        }
        answer["authenticated"] = self._provides_preauth
        return answer

    def download(
        self,
        organization: str,
        repo: str,
        oid: str,
        size: int,
        extra: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {"oid": oid, "size": size}
        if not self._exists(organization, repo, oid):
            answer["error"] = {"code": 404, "message": "the object is not there"}
            return answer
        lifetime = self._lifetime_seconds
        answer["actions"] = {
            "download": self._action("get", organization, repo, oid, "read", lifetime)
        }
        answer["authenticated"] = self._provides_preauth
        return answer

    def register_views(self, app: Flask) -> None:
        self._view.register(app, init_argument=self._folder)

    def _exists(self, organization: str, repo: str, oid: str) -> bool:
        return _checked(lambda: self._folder.exists(posixpath.join(organization, repo), oid))

    def _action(
        self,
        operation: str,
        organization: str,
        repo: str,
        oid: str,
        right: str,
        lifetime_seconds: int,
    ) -> dict[str, Any]:
        legacy = "Legacy" if current_app.config["LEGACY_ENDPOINTS"] else ""
        names = {"organization": organization, "repo": repo}
        if operation != "verify":
            names["oid"] = oid
        href = url_for(f"{legacy}{self._view.__name__}:{operation}", _external=True, **names)
        header = self._preauth_headers(
            organization, repo, actions={right}, oid=oid, lifetime=lifetime_seconds
        )
        return {"href": href, "header": header, "expires_in": lifetime_seconds}


class PackedAdapter(Adapter):
    """The adapter for clients with the agent."""

    def register_views(self, app: Flask) -> None:
        super().register_views(app)
        app.wsgi_app = _PreferPacked(app.wsgi_app)


class _PreferPacked:
    """Moves the packed transfer to the front of a client's list of transfers. Giftless
    takes the first transfer that it supports, and git-lfs changes their order from one
    request to the next."""

    def __init__(self, application: Callable[..., Any]) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") == "POST" and path.endswith("/objects/batch"):
            _put_packed_first(environ)
        return self._application(environ, start_response)


def _put_packed_first(environ: dict[str, Any]) -> None:
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return
    if not 0 < length <= _MAX_BATCH_BYTES:
        return
    body = environ["wsgi.input"].read(length)
    try:
        request = json.loads(body)
        # Sorting is stable, so the others keep their order.
        request["transfers"].sort(key=lambda name: name != _NAME)
        body = json.dumps(request).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # Giftless reports the error itself.
        pass
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))


def packed(
    path: str, action_lifetime: int = _LIFETIME_SECONDS, cache_bytes: int = 64 << 20
) -> Adapter:
    """Creates the adapter for clients with the agent. It must be named ``zstn`` in the
    configuration."""
    folder = ObjectFolder(path, cache_bytes)
    return PackedAdapter(folder, PackedObjectsView, action_lifetime)


def original(
    path: str,
    action_lifetime: int = _LIFETIME_SECONDS,
    cache_bytes: int = 64 << 20,
    **_defaults: Any,
) -> Adapter:
    """Creates the adapter for all other clients. It must be named ``basic`` in the
    configuration. Giftless adds the options of its own adapter with that name, which
    have no effect here."""
    return Adapter(ObjectFolder(path, cache_bytes), OriginalObjectsView, action_lifetime)


def _checked(work: Callable[[], T]) -> T:
    """Responds with status 422 if the bytes of a request are not the bytes of their
    object."""
    try:
        return work()
    except ObjectError as error:
        raise InvalidPayload(str(error)) from error
