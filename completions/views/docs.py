"""The interface described: as OpenAPI document, and as a page that loads nothing from elsewhere."""

from importlib.resources import files
from pathlib import Path

from django.contrib.auth.decorators import login_not_required
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from completions import openapi
from completions.exceptions import NotFound

_SWAGGER = Path(str(files("drf_spectacular_sidecar"))) / (
    "static/drf_spectacular_sidecar/swagger-ui-dist"
)
_OWN = Path(__file__).parent.parent / "static/completions"

ASSETS = {
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "docs.js": _OWN / "docs.js",
}


@login_not_required
def document(request: HttpRequest) -> HttpResponse:
    """GET /openapi.json."""
    mounted_at = request.path.removesuffix("/openapi.json")
    return JsonResponse({**openapi.document(), "servers": [{"url": mounted_at or "/"}]})


@login_not_required
def page(request: HttpRequest) -> HttpResponse:
    """GET /docs."""
    return render(request, "completions/docs.html")


@login_not_required
def asset(request: HttpRequest, name: str) -> HttpResponseBase:
    """A script or style of the page; served from here, so that no static files need be set up."""
    if name not in ASSETS:
        return NotFound(f"There is nothing at {request.path}.").response()
    return FileResponse(ASSETS[name].open("rb"))
