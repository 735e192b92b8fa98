"""A read-only schema registry, with the routes that Confluent's deserializers, AKHQ and kafka-ui request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import schemas

if TYPE_CHECKING:
    from starlette.requests import Request

_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND, _READ_ONLY = 40401, 40402, 40403, 42205
_SUBJECTS = sorted({schemas.record_name(schema_id) for schema_id in schemas.IDS})


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
    return _json([{"subject": subject, "version": schemas.versions(subject).index(schema_id) + 1}])


async def _versions(request: Request) -> Response:
    subject = request.path_params["subject"]
    ids = schemas.versions(subject)
    if not ids:
        return _error(_SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
    return _json(list(range(1, len(ids) + 1)))


async def _version(request: Request) -> Response:
    subject, version = request.path_params["subject"], request.path_params["version"]
    ids = schemas.versions(subject)
    if not ids:
        return _error(_SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
    number = {str(n): n for n in range(1, len(ids) + 1)}.get(version, len(ids) if version == "latest" else 0)
    if not number:
        return _error(_VERSION_NOT_FOUND, f"Version {version} not found.")
    schema_id = ids[number - 1]
    return _json(
        {
            "subject": subject,
            "version": number,
            "id": schema_id,
            "schemaType": "AVRO",
            "schema": _compact(schema_id),
        }
    )


async def _refuse(request: Request) -> Response:
    return _error(_READ_ONLY, f"Subject {request.path_params.get('subject', '')} is in read-only mode")


def _compact(schema_id: int) -> str:
    return json.dumps(json.loads(schemas.text(schema_id)), separators=(",", ":"))


ROUTES = [  # a response is an ASGI application, too
    Route("/schemas/ids/{id:int}", _schema),
    Route("/schemas/ids/{id:int}/versions", _subjects_of),
    Route("/schemas/types", _json(["AVRO"]), methods=["GET"]),
    Route("/subjects", _json(_SUBJECTS), methods=["GET"]),
    Route("/subjects/{subject}", _refuse, methods=["POST", "DELETE"]),
    Route("/subjects/{subject}/versions", _versions, methods=["GET"]),
    Route("/subjects/{subject}/versions", _refuse, methods=["POST"]),
    Route("/subjects/{subject}/versions/{version}", _version),
    Route("/config", _json({"compatibilityLevel": "BACKWARD"}), methods=["GET"]),
    Route("/mode", _json({"mode": "READONLY"}), methods=["GET"]),
]
