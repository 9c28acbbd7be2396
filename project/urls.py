"""The admin, and the contract's paths at the root."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("completions.urls")),
]

handler400 = "completions.views.errors.bad_request"
handler404 = "completions.views.errors.not_found"
handler500 = "completions.views.errors.server_error"
