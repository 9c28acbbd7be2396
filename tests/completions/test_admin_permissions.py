import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from completions.models import LoggedChoice, RequestLog

LIST = "/admin/completions/requestlog/"


@pytest.fixture
def row(db):
    row = RequestLog.objects.create(
        request_id="cmpl-1",
        created=timezone.now(),
        model="fake",
        status_code=200,
        prompt="a secret question",
        prompt_kind="text",
        parameters={"stop": ["a secret stop"]},
    )
    LoggedChoice.objects.create(log=row, index=0, text="a secret answer", finish_reason="stop")
    return row


@pytest.fixture
def viewer(client, row):
    """Staff who may view the log, but not what was said."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_requestlog"))
    client.force_login(user)
    return user


def allow_content(user):
    user.user_permissions.add(Permission.objects.get(codename="view_content"))


def test_nothing_without_a_permission(client, row):
    client.force_login(User.objects.create_user("staff", is_staff=True))
    for path in ("", f"{row.pk}/change/", "dashboard/", "live/", "export/csv/"):
        assert client.get(f"{LIST}{path}").status_code == 403


@pytest.mark.parametrize("path", ["dashboard/", "live/", "export/csv/"])
def test_strangers_are_asked_to_sign_in(client, row, path):
    assert client.get(f"{LIST}{path}")["Location"].startswith("/admin/login/")


def test_content_is_hidden(client, viewer, row):
    page = client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "cmpl-1" in page
    assert "secret" not in page
    assert "curl" not in page


def test_content_is_shown_to_those_who_may(client, viewer, row):
    allow_content(viewer)
    page = client.get(f"{LIST}{row.pk}/change/").content.decode()
    for text in ("a secret question", "a secret answer", "a secret stop", "curl "):
        assert text in page


def test_content_is_not_exported(client, viewer, row):
    assert client.get(f"{LIST}export/jsonl/").status_code == 403
    page = client.get(LIST).content.decode()
    assert "export" not in page
    answer = client.post(LIST, {"action": "export_csv", "_selected_action": [row.pk]})
    assert not answer.streaming


@pytest.mark.parametrize(
    "query", ["q=secret", "prompt__contains=secret", "choices__text__contains=secret"]
)
def test_content_can_not_be_guessed(client, viewer, row, query):
    response = client.get(f"{LIST}?{query}")
    found = response.status_code == 200 and "cmpl-1" in response.content.decode()
    assert not found
    allow_content(viewer)
    if query.startswith("q="):
        assert "cmpl-1" in client.get(f"{LIST}?{query}").content.decode()
