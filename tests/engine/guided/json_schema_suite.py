"""The JSON-Schema-Test-Suite, as it ships in the source distribution of `jsonschema`.

Run as a module it writes what becomes of every schema to BASELINE and the table in docs/guided.md.
"""

import itertools
import json
import re
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidRequest
from engine.guided.compiler import GrammarCompiler
from engine.guided.llguidance_job import DIALECT
from engine.sampling_params import GuidedParams
from tests.engine.guided.follow import matches
from tests.engine.guided.vocabulary import ByteVocabulary

ROOT = Path(__file__).parents[3]
CACHE = ROOT / "var" / "cache" / "json-schema-test-suite"
DOCS = ROOT / "docs" / "guided.md"
BEGIN, END = "<!-- refusals: begin -->", "<!-- refusals: end -->"
BASELINE = Path(__file__).with_name("json_schema_baseline.json")
REQUIREMENT = "jsonschema==4.26.0"
DRAFT = "json/tests/draft2020-12"


@dataclass(frozen=True)
class Case:
    """A schema and instances of it, each with whether it is valid."""

    id: str
    schema: object
    instances: list[tuple[str, object, bool]]


def load_cases():
    """All cases of the required part, and those of the formats that are enforced."""
    for path in sorted(suite_folder().glob("*.json")):
        yield from _cases(path, path.stem)
    for name in sorted(DIALECT.formats):
        yield from _cases(suite_folder() / "optional" / "format" / f"{name}.json", f"format {name}")


def _cases(path, name):
    for group in json.loads(path.read_text(encoding="utf-8")):
        instances = [(t["description"], t["data"], t["valid"]) for t in group["tests"]]
        yield Case(f"{name}: {group['description']}", group["schema"], instances)


def suite_folder():
    """Where the draft's tests lie; they are fetched once."""
    folder = CACHE / DRAFT
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "jsonschema", "--dest", str(CACHE)]
        subprocess.run([*command, REQUIREMENT], check=True)
        with tarfile.open(next(CACHE.glob("*.tar.gz"))) as archive:
            for member in archive.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name.startswith(DRAFT):
                    archive.extract(member, CACHE, filter="data")
    return folder


def texts(value):
    """A value as JSON text: members of its objects in every order, both usual separators."""
    for ordered in itertools.islice(_orders(value), 200):
        for separators in ((",", ":"), None):
            yield separators, json.dumps(ordered, ensure_ascii=False, separators=separators)


def _orders(value):
    if isinstance(value, dict):
        for names in itertools.permutations(value):
            for members in itertools.product(*(list(_orders(value[name])) for name in names)):
                yield dict(zip(names, members, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*(list(_orders(item)) for item in value)))
    else:
        yield value


def verdict(compiler, vocabulary, case):
    """What becomes of a case: None if all is well, a refusal's reason, or wrong instances."""
    try:
        grammar = compiler.compile(GuidedParams("json", json.dumps(case.schema))).result(60)
    except InvalidRequest as refusal:
        return refusal.message
    wrong = {}
    for description, instance, is_valid in case.instances:
        accepted = {form for form, text in texts(instance) if matches(grammar, vocabulary, text)}
        if is_valid and accepted != {(",", ":"), None}:
            wrong[description] = "valid, but not accepted"
        if accepted and not is_valid:
            wrong[description] = "invalid, but accepted"
    return wrong or None


def verdicts(compiler, vocabulary):
    """The verdicts that are not None, by case."""
    found = {case.id: verdict(compiler, vocabulary, case) for case in load_cases()}
    return {case_id: result for case_id, result in found.items() if result}


def table(found):
    """The refusals by keyword, as Markdown."""
    counts = Counter(reason_of(message) for message in found.values() if isinstance(message, str))
    lines = ["| refused | schemas of the suite |", "|---|---|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(counts.items())]
    return "\n".join(lines) + "\n"


def reason_of(message):
    """A refusal's reason without its place and values."""
    reason = re.sub(r"^guided_json: (#\S*: )?", "", message).rstrip(".")
    reason = re.sub(r" is not supported by llguidance$", "", reason)
    return re.sub(r"( \"[^\"]*\"| [\d.]+$| /.*/(?= and )| and /.*/)", "", reason)


def main():
    """Write the baseline and the table."""
    vocabulary = ByteVocabulary()
    compiler = GrammarCompiler(vocabulary)
    found = verdicts(compiler, vocabulary)
    compiler.close()
    BASELINE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = DOCS.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    DOCS.write_text(f"{before}{BEGIN}\n{table(found)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
