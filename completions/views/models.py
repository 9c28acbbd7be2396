"""Which model is served, and what is to be known about it."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from completions import metadata
from completions.engines import get_engine, served_names
from completions.openapi import LICENSE, MODEL, STRING, a_list, an_object, answers, describe
from completions.views.base import ContractView

LOADING = (503,)


class ModelListView(ContractView):
    """GET /v1/models."""

    @describe(
        operation_id="list_models",
        responses=answers("All names.", an_object(object=STRING, data=a_list(MODEL)), *LOADING),
    )
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """List the names under which the model is served."""
        engine = get_engine()
        cards = [metadata.model_card(engine, name) for name in served_names()]
        return JsonResponse({"object": "list", "data": cards})


class ModelView(ContractView):
    """GET /v1/models/{model}."""

    @describe(operation_id="retrieve_model", responses=answers("The model.", MODEL, 404, *LOADING))
    def get(self, request: HttpRequest, model: str) -> HttpResponse:  # noqa: ARG002
        """Describe one of the served names."""
        return JsonResponse(metadata.model_card(get_engine(model), model))


class VersionView(ContractView):
    """GET /v1/version."""

    @describe(
        operation_id="version",
        responses=answers("Versions.", an_object(release=STRING, api=STRING)),
    )
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Tell the versions of the service and of its contract."""
        return JsonResponse(metadata.version())


METADATA: dict[str, Any] = an_object(
    version=STRING,
    assetInfo=a_list(STRING),
    licenseInfo=LICENSE,
    modelInfo=a_list(an_object(modelUrl=STRING, shortName=STRING)),
)


class MetadataView(ContractView):
    """GET /v1/metadata."""

    @describe(operation_id="metadata", responses=answers("Metadata.", METADATA, *LOADING))
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Tell which model is served under which license."""
        return JsonResponse(metadata.service_metadata(get_engine()))


class LicenseView(ContractView):
    """GET /v1/license."""

    @describe(operation_id="license", responses=answers("The license.", LICENSE, *LOADING))
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Give the license of the model."""
        return JsonResponse(metadata.license_info(get_engine()))


class ManifestView(ContractView):
    """GET /v1/manifest."""

    @describe(
        operation_id="manifest",
        responses=answers("The manifest.", an_object(manifest_file=STRING), *LOADING),
    )
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """List the model's files."""
        return JsonResponse(metadata.manifest(get_engine()))
