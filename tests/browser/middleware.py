"""What a strict host site adds to every page."""

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


def strict_policy(get_response):
    """Forbid inline scripts and styles, and everything from elsewhere."""

    def middleware(request):
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return middleware
