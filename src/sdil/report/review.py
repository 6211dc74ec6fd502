"""The page of `sdil review`: a person says of spans of steps whether they are good."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def render_review() -> tuple[str, str]:
    """The page, and the policy that lets no other script run and nobody else be spoken to."""
    assets = files("sdil.report") / "assets"
    script = (assets / "review.js").read_text("utf-8").replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    page = (assets / "review.html").read_text("utf-8")
    for name, text in (("STYLE", (assets / "review.css").read_text("utf-8")), ("SCRIPT", script)):
        page = page.replace(f"{{{{{name}}}}}", text)
    return page, policy
