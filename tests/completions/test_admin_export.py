import csv
import io
import json

import pytest

from completions.models import LoggedChoice, RequestLog
from tests.log_rows import fill

LIST = "/admin/completions/requestlog/"


@pytest.fixture
def rows(db):
    fill(40)
    return list(RequestLog.objects.prefetch_related("choices"))


def exported(client, path):
    response = client.get(f"{LIST}{path}")
    assert response.streaming
    return b"".join(response).decode()


def test_json_lines_hold_everything(admin_client, rows):
    lines = exported(admin_client, "export/jsonl/").splitlines()
    found = [json.loads(line) for line in lines]
    assert [row["request_id"] for row in found] == [row.request_id for row in rows]
    answered = next(row for row in rows if row.status_code == 200)
    line = next(row for row in found if row["request_id"] == answered.request_id)
    assert line["prompt"] == answered.prompt
    assert line["parameters"] == answered.parameters
    assert [choice["text"] for choice in line["choices"]] == [answered.choices.get().text]


def test_the_list_and_its_export_have_the_same_filter(admin_client, rows):
    text = exported(admin_client, "export/csv/?outcome=answered")
    statuses = {row["status_code"] for row in csv.DictReader(io.StringIO(text))}
    assert statuses == {"200"}
    assert text.count("\r\n") == 1 + sum(row.status_code == 200 for row in rows)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(admin_client, db, start):
    fill(1)
    RequestLog.objects.update(prompt=f"{start}1+1", user=f"{start}cmd")
    (row,) = csv.DictReader(io.StringIO(exported(admin_client, "export/csv/"), newline=""))
    assert row["prompt"] == f"'{start}1+1"
    assert row["user"] == f"'{start}cmd"


@pytest.mark.parametrize("action", ["export_csv", "export_jsonl"])
def test_export_of_a_selection(admin_client, rows, action):
    chosen = [rows[3].pk, rows[7].pk]
    response = admin_client.post(LIST, {"action": action, "_selected_action": chosen})
    text = b"".join(response).decode()
    assert [row for row in rows if row.request_id in text] == [rows[3], rows[7]]
    assert "attachment" in response["Content-Disposition"]


def test_rows_are_read_in_pieces(admin_client, rows, django_assert_max_num_queries):
    response = admin_client.get(f"{LIST}export/jsonl/")
    with django_assert_max_num_queries(2):
        next(iter(response))


def test_a_form_that_does_not_exist(admin_client, rows):
    assert admin_client.get(f"{LIST}export/xml/").status_code == 404


async def test_under_asgi_nothing_is_collected_first(rows_of_a_superuser, async_client):
    await async_client.aforce_login(rows_of_a_superuser)
    response = await async_client.get(f"{LIST}export/jsonl/")
    assert response.is_async
    pieces = [piece async for piece in response]
    assert len(pieces) == 40


@pytest.fixture
def rows_of_a_superuser(transactional_db, django_user_model):
    fill(40)
    return django_user_model.objects.create_superuser("ada")


def test_every_choice_is_exported(admin_client, db):
    fill(1)
    row = RequestLog.objects.get()
    LoggedChoice.objects.all().delete()
    LoggedChoice.objects.bulk_create(
        LoggedChoice(log=row, index=index, text=f"answer {index}") for index in range(3)
    )
    line = json.loads(exported(admin_client, "export/jsonl/"))
    assert [choice["text"] for choice in line["choices"]] == ["answer 0", "answer 1", "answer 2"]
