"""The endpoints as Django views: `/v1/completions` without Channels, and those beside it."""
