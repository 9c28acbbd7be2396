"""The admin of what the app keeps."""

from completions.admin.request_log import RequestLogAdmin

__all__ = ["RequestLogAdmin"]
