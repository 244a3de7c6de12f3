"""Uploading a job's output, or a folder, to the Hugging Face Hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import text_in
from core.errors import BadRequest

NO_REPOSITORY = "repo_id required"
NO_SOURCE = "source_path required, or the job_id of a job that is done"


class PushOrder(Struct, kw_only=True):
    """What `POST /api/{quantize,finetune,dataset}/push` takes."""

    repo_id: Annotated[str, Meta(description="org/name; made when missing")]
    job_id: Annotated[str | UnsetType, Meta(description="whose output is uploaded")] = UNSET
    source_path: Annotated[str | UnsetType, Meta(description="a folder; goes before job_id")] = (
        UNSET
    )
    private: Annotated[bool, Meta(description="whether a repository that is made is private")] = (
        True
    )


class Pushed(Struct, kw_only=True):
    """It was uploaded."""

    ok: Literal[True] = True
    url: str


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order whose fields are sound."""

    repo_id: str
    """The repository."""
    job_id: str
    """The job; empty: a folder is named."""
    source_path: str
    """The folder; empty: the job's output."""
    private: bool
    """Whether a repository that is made is private."""


def order_of(fields: dict[str, Any]) -> Order:
    """Return the order in a body.

    Raises:
        BadRequest: a field is missing, or not of its type.
    """
    private = fields.get("private")
    if private is not None and not isinstance(private, bool):
        raise BadRequest("private must be true or false.", field="private")
    order = Order(
        repo_id=text_in(fields, "repo_id"),
        job_id=text_in(fields, "job_id"),
        source_path=text_in(fields, "source_path"),
        private=private is not False,
    )
    if not order.repo_id:
        raise BadRequest(NO_REPOSITORY, field="repo_id")
    if not (order.source_path or order.job_id):
        raise BadRequest(NO_SOURCE, field="source_path")
    return order
