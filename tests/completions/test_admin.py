import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from completions.models import LoggedChoice, RequestLog

LIST = "/admin/completions/requestlog/"


@pytest.fixture
def rows(db):
    rows = [
        RequestLog(
            request_id=f"cmpl-{number}",
            created=timezone.now(),
            model="fake",
            user=f"user-{number}",
            status_code=200 if number % 2 else 404,
            prompt=f"prompt {number}\n  <b>&amp;",
            prompt_kind="text",
            parameters={"stop": ["é"]},
            completion_tokens=8,
            decode_seconds=2.0,
        )
        for number in range(4)
    ]
    RequestLog.objects.bulk_create(rows)
    LoggedChoice.objects.bulk_create(
        LoggedChoice(log=row, index=0, text=f" answer {row.id}\n\n<script>", finish_reason="stop")
        for row in rows
    )
    return rows


def test_list(admin_client, rows):
    page = admin_client.get(LIST).content.decode()
    assert all(f">{row.request_id}</a>" in page for row in rows)
    assert "4.0" in page  # tokens per second


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=cmpl-1", {"cmpl-1"}),
        ("q=user-2", {"cmpl-2"}),
        ("q=%22prompt+3%22", {"cmpl-3"}),
        ("q=answer", {"cmpl-0", "cmpl-1", "cmpl-2", "cmpl-3"}),
        ("q=nothing-like-it", set()),
        ("status_code__exact=404", {"cmpl-0", "cmpl-2"}),
    ],
)
def test_search_and_filter(admin_client, rows, query, found):
    page = admin_client.get(f"{LIST}?{query}")
    assert {row.request_id for row in page.context["cl"].result_list} == found


def test_detail_shows_texts_as_written_and_escaped(admin_client, rows):
    page = admin_client.get(f"{LIST}{rows[1].id}/change/").content.decode()
    assert "prompt 1\n  &lt;b&gt;&amp;amp;" in page
    assert "answer" in page
    assert "\n\n&lt;script&gt;" in page
    assert "é" in page


def test_nothing_can_be_changed(admin_client, rows):
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{rows[0].id}/change/", {"model": "x"}).status_code == 403
    assert admin_client.post(f"{LIST}{rows[0].id}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).content.decode()
    assert RequestLog.objects.filter(model="fake").count() == 4


def test_view_permission_is_enough(client, rows):
    staff = User.objects.create_user("staff", is_staff=True)
    client.force_login(staff)
    assert client.get(LIST).status_code == 403
    staff.user_permissions.add(Permission.objects.get(codename="view_requestlog"))
    assert client.get(LIST).status_code == 200


def test_list_never_counts_the_whole_table(admin_client, rows, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(
        connection,
    ) as queries:
        admin_client.get(LIST)
    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert counts == []
    assert len(queries) < 12


def test_filtered_list_counts_up_to_a_limit(admin_client, rows, monkeypatch):
    from completions.admin.paginator import LogPaginator

    monkeypatch.setattr(LogPaginator, "limit", 1)
    page = admin_client.get(f"{LIST}?status_code__exact=404")
    assert page.context["cl"].result_count == 1
