"""The tokenizer over HTTP."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from completions.engines import get_engine
from completions.exceptions import BadRequest
from completions.openapi import INTEGER, STRING, a_list, an_object, answers, describe, nullable
from completions.serializers import DetokenizeSerializer, TokenizeSerializer
from completions.views.base import ContractView

ERRORS = (400, 404, 413, 415, 422, 503)
TOKENS = an_object(count=INTEGER, max_model_len=INTEGER, tokens=a_list(INTEGER))
NAMES = an_object(
    eos_token=nullable(STRING), bos_token=nullable(STRING), pad_token=nullable(STRING)
)


class TokenizeView(ContractView):
    """POST /tokenize."""

    @describe(
        operation_id="tokenize",
        request=TokenizeSerializer,
        responses=answers("The tokens.", TOKENS, *ERRORS),
    )
    def post(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Give a text's token ids."""
        fields = self.read(TokenizeSerializer)
        engine = get_engine(fields.get("model"))
        special = fields.get("add_special_tokens", True)
        tokens = engine.tokenizer.encode(fields["prompt"], add_special_tokens=special)
        return JsonResponse(
            {"count": len(tokens), "max_model_len": engine.max_model_len, "tokens": tokens}
        )


class DetokenizeView(ContractView):
    """POST /detokenize."""

    @describe(
        operation_id="detokenize",
        request=DetokenizeSerializer,
        responses=answers("The text.", an_object(prompt=STRING), *ERRORS),
    )
    def post(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Give the text of token ids."""
        fields = self.read(DetokenizeSerializer)
        engine = get_engine(fields.get("model"))
        size = engine.model.vocab_size
        for at, token_id in enumerate(fields["tokens"]):
            if not 0 <= token_id < size:
                message = f"tokens.{at}: must be between 0 and {size - 1}."
                raise BadRequest(message, f"tokens.{at}")
        return JsonResponse({"prompt": engine.tokenizer.decode(fields["tokens"])})


class TokenizerInfoView(ContractView):
    """GET /tokenizer_info."""

    @describe(
        operation_id="tokenizer_info", responses=answers("Special tokens by role.", NAMES, 503)
    )
    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Name the special tokens."""
        roles = dict.fromkeys(("eos_token", "bos_token", "pad_token"))
        return JsonResponse({**roles, **get_engine().tokenizer.special_tokens})
