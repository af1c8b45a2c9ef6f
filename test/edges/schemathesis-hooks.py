"""What the document says in words, since no schema can: how the places go together in which a parameter may be."""

import json

import schemathesis

REQUIRED = {"asset_key": '["schemathesis"]', "passed": "true", "check_name": "schemathesis"}


@schemathesis.hook
def filter_case(context, case):
    query = case.query or {}
    body = case.body if isinstance(case.body, dict) else {}
    # The body hides the query, so a mistake in what it hides is none.
    return not any(name in body for name in query) and is_key(query.get("asset_key"))


@schemathesis.hook
def map_case(context, case):
    # What is required and in no place goes into the query.
    body = case.body if isinstance(case.body, dict) else {}
    taken = [parameter.name for parameter in case.operation.query]
    missing = {name: value for name, value in REQUIRED.items() if name in taken and name not in body}
    if missing:
        case.query = {**missing, **(case.query or {})}
    return case


def is_key(text):
    # `contentSchema` says what is behind the bracket; Schemathesis does not look at it in a query.
    if not isinstance(text, str) or not text.startswith("["):
        return True
    try:
        parts = json.loads(text)
    except ValueError:
        return False
    return len(parts) > 0 and all(isinstance(part, str) and part.isprintable() and part for part in parts)
