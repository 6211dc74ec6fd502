"""The review page for a browser on this machine, and on no other.

It listens on the loopback address alone. Every address holds a secret token; another web page that
guesses the port knows it not, and could not post with it either: what changes something must come
from this page (Origin), be addressed to it (Host: no rebinding of names) and be JSON.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sdil.cli.reviewing import Review
from sdil.errors import InputError
from sdil.report.review import render_review

LOOPBACK = "127.0.0.1"
_LARGEST = 65_536  # bytes of an answer


class ReviewServer(ThreadingHTTPServer):
    """Serves one review; `address` is where."""

    daemon_threads = True

    def __init__(self, review: Review, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.review, self.token = review, secrets.token_urlsafe(24)
        self.page, self.policy = render_review()

    @property
    def origin(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    @property
    def address(self) -> str:
        return f"{self.origin}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "sdil", ""

    def do_GET(self) -> None:
        place = self._place()
        if place is None:
            return
        path, query = place
        if path == "":
            self._send(200, self.server.page.encode(), "text/html; charset=utf-8")
        elif path == "state":
            self._answer(self.server.review.state)
        elif path == "episode":
            number = query.get("number", [""])[0]
            if not number.isascii() or not number.isdigit():
                self._refuse(400, "which episode? number=0, 1, 2, ...")
                return
            self._answer(lambda: self.server.review.episode(int(number)))
        else:
            self._refuse(404, "there is nothing here")

    def do_POST(self) -> None:
        place = self._place()
        if place is None:
            return
        if self.headers.get("Origin") != self.server.origin:
            self._refuse(403, "only the review page may say something")
            return
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            self._refuse(415, "an answer is JSON")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _LARGEST:
            self._refuse(413, f"an answer has at most {_LARGEST} bytes, and says how many")
            return
        try:
            said = json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError:
            self._refuse(400, "this is no JSON")
            return
        if not isinstance(said, dict):
            self._refuse(400, "an answer is an object")
            return
        review = self.server.review
        work: dict[str, Callable[[], dict[str, Any]]] = {
            "label": lambda: review.answer(said),
            "undo": review.undo,
            "rejudge": review.rejudge,
        }
        if place[0] not in work:
            self._refuse(404, "there is nothing here")
            return
        self._answer(work[place[0]])

    def _place(self) -> tuple[str, dict[str, list[str]]] | None:
        """What is asked for, by somebody who may ask."""
        if self.headers.get("Host") != self.server.origin.removeprefix("http://"):
            self._refuse(403, "this server answers to its own name alone")
            return None
        parts = urlsplit(self.path)
        token, _, path = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(403, "the address lacks its token: open the one that sdil printed")
            return None
        return path, parse_qs(parts.query)

    def _answer(self, work: Callable[[], dict[str, Any]]) -> None:
        try:
            found = work()
        except (InputError, OSError, ValueError) as error:  # half an emoji has no UTF-8
            self._refuse(400, str(error))
            return
        self._send(200, json.dumps(found).encode(), "application/json")

    def _refuse(self, code: int, why: str) -> None:
        self.close_connection = True  # what it may have sent is not read
        self._send(code, json.dumps({"error": why}).encode(), "application/json")

    def _send(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold the token."""
