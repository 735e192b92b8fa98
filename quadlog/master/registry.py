"""A read-only schema registry: what Confluent's deserializers, AKHQ and kafka-ui ask one for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import schemas

if TYPE_CHECKING:
    from starlette.requests import Request

_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND, _READ_ONLY = 40401, 40402, 40403, 42205
_IDS: dict[str, list[int]] = {}
"""Subject to the ids of its versions, oldest first."""
for _id in sorted(schemas.IDS):
    _IDS.setdefault(schemas.record_name(_id), []).append(_id)


def _json(body: Any, status: int = 200) -> Response:  # noqa: ANN401 - any JSON
    return JSONResponse(body, status, media_type="application/vnd.schemaregistry.v1+json")


def _error(code: int, message: str) -> Response:
    return _json({"error_code": code, "message": message}, code // 100)


async def _schema(request: Request) -> Response:
    schema_id = request.path_params["id"]
    if schema_id not in schemas.IDS:
        return _error(_SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
    return _json({"schema": _compact(schema_id), "schemaType": "AVRO"})


async def _subjects_of(request: Request) -> Response:
    schema_id = request.path_params["id"]
    if schema_id not in schemas.IDS:
        return _error(_SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
    subject = schemas.record_name(schema_id)
    return _json([{"subject": subject, "version": _IDS[subject].index(schema_id) + 1}])


async def _subjects(request: Request) -> Response:
    del request
    return _json(sorted(_IDS))


async def _versions(request: Request) -> Response:
    subject = request.path_params["subject"]
    if subject not in _IDS:
        return _error(_SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
    return _json([number for number, _ in enumerate(_IDS[subject], start=1)])


async def _version(request: Request) -> Response:
    subject, version = request.path_params["subject"], request.path_params["version"]
    if subject not in _IDS:
        return _error(_SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
    ids = dict(enumerate(_IDS[subject], start=1))
    number = max(ids) if version == "latest" else int(version) if version.isdecimal() else 0
    if number not in ids:
        return _error(_VERSION_NOT_FOUND, f"Version {version} not found.")
    schema_id = ids[number]
    return _json(
        {
            "subject": subject,
            "version": number,
            "id": schema_id,
            "schemaType": "AVRO",
            "schema": _compact(schema_id),
        }
    )


async def _config(request: Request) -> Response:
    del request
    return _json({"compatibilityLevel": "BACKWARD"})


async def _mode(request: Request) -> Response:
    del request
    return _json({"mode": "READONLY"})


async def _types(request: Request) -> Response:
    del request
    return _json(["AVRO"])


async def _refuse(request: Request) -> Response:
    return _error(_READ_ONLY, f"Subject {request.path_params.get('subject', '')} is in read-only mode")


def _compact(schema_id: int) -> str:
    return json.dumps(json.loads(schemas.text(schema_id)), separators=(",", ":"))


ROUTES = [
    Route("/schemas/ids/{id:int}", _schema),
    Route("/schemas/ids/{id:int}/versions", _subjects_of),
    Route("/schemas/types", _types),
    Route("/subjects", _subjects),
    Route("/subjects/{subject}", _refuse, methods=["POST", "DELETE"]),
    Route("/subjects/{subject}/versions", _versions, methods=["GET"]),
    Route("/subjects/{subject}/versions", _refuse, methods=["POST"]),
    Route("/subjects/{subject}/versions/{version}", _version),
    Route("/config", _config),
    Route("/mode", _mode),
]
