"""What llguidance's `format` lets through that it shouldn't, as patterns beside it."""

_LEAP_YEAR = (
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"  # not 0000
)
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = f"(?:{_LEAP_YEAR}-02-29|{_YEAR}-(?:02-(?:[01][0-9]|2[0-8])|(?:0[13-9]|1[0-2])-[0-9]{{2}}))"
_TIME = "[0-9]{2}:[0-9]{2}:[0-5]"

STRICTER = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}",
    "time": f"^{_TIME}",
}
"""No 29 February but in leap years, no year 0, no leap seconds (RFC 3339, section 5.7)."""
