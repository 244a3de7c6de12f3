"""The answer to bytes that are not an HTTP request: no route and no middleware ever sees them."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from commands.serve.request_ids import HEADER, new_request_id
from commands.serve.wire.openai.errors import refusal_body


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's, with a request id and an error body like those of every other answer."""

    def send_400_response(self, msg: str) -> None:
        """Answer and close the connection."""
        body = refusal_body(msg)
        head = (
            "HTTP/1.1 400 Bad Request\r\n"
            "content-type: application/json\r\n"
            f"content-length: {len(body)}\r\n"
            f"{HEADER}: {new_request_id()}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
