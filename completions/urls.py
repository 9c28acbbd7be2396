"""The contract's paths; mount with `path("", include("completions.urls"))`."""

from django.urls import path

from completions.views import docs, health, models, tokenizer
from completions.views.completions import completions

app_name = "completions"

urlpatterns = [
    path("v1/completions", completions, name="completions"),
    path("v1/models", models.ModelListView.as_view(), name="models"),
    path("v1/models/<path:model>", models.ModelView.as_view(), name="model"),
    path("v1/health/live", health.LiveView.as_view(), name="live"),
    path("v1/health/ready", health.ReadyView.as_view(), name="ready"),
    path("health", health.ReadyView.as_view()),
    path("ping", health.LiveView.as_view()),
    path("v1/metrics", health.MetricsView.as_view(), name="metrics"),
    path("metrics", health.MetricsView.as_view()),
    path("v1/version", models.VersionView.as_view(), name="version"),
    path("version", models.VersionView.as_view()),
    path("v1/metadata", models.MetadataView.as_view(), name="metadata"),
    path("v1/license", models.LicenseView.as_view(), name="license"),
    path("v1/manifest", models.ManifestView.as_view(), name="manifest"),
    path("tokenize", tokenizer.TokenizeView.as_view(), name="tokenize"),
    path("v1/tokenize", tokenizer.TokenizeView.as_view()),
    path("detokenize", tokenizer.DetokenizeView.as_view(), name="detokenize"),
    path("v1/detokenize", tokenizer.DetokenizeView.as_view()),
    path("tokenizer_info", tokenizer.TokenizerInfoView.as_view(), name="tokenizer_info"),
    path("openapi.json", docs.document, name="openapi"),
    path("docs", docs.page, name="docs"),
    path("docs/<str:name>", docs.asset, name="docs-asset"),
]
