"""The OpenAPI document, judged by a validator of the specification.

Needs `openapi-spec-validator` and `pytest`, and POSTHOUSE_BIN: the `posthouse` binary. `posthouse openapi` prints the
document. The last tests start a server and compare its real responses with the document.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

BIN = os.environ.get("POSTHOUSE_BIN", "target/debug/posthouse")
METHODS = {"get", "post", "put", "patch", "delete"}
HERE = "urn:posthouse"


@pytest.fixture(scope="session")
def document():
    printed = subprocess.run([BIN, "openapi"], check=True, capture_output=True, timeout=30).stdout
    return json.loads(printed)


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield method, path, operation


def test_the_document_follows_the_specification(document):
    wrong = [f"{list(error.path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert not wrong


def test_every_schema_is_a_schema(document):
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_programs_operators_and_tokens_are_described(document):
    paths = set(document["paths"])
    assert {"/v1/notify", "/v1/exchange", "/admin/tenants", "/admin/audit", "/oauth/token", "/api/oauth/token"} <= paths


def test_every_error_of_our_own_apis_is_a_problem(document):
    for method, path, operation in operations(document):
        if not path.startswith(("/v1/", "/admin/")):
            continue
        for status, response in operation["responses"].items():
            if int(status) < 400:
                continue
            response = resolved(document, response)
            assert list(response["content"]) == ["application/problem+json"], f"{method} {path} {status}"
            # Each description begins with its codes.
            assert response["description"].startswith("`"), f"{method} {path} {status}"


def resolved(document, value):
    while "$ref" in value:
        at = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        value = at
    return value


# A running server.

# Values for the required parameters of lists.
KNOWN = {"tenant": "acme"}


class Server:
    def __init__(self, folder):
        subprocess.run([BIN, "init", folder], check=True, capture_output=True, timeout=30)
        serve = [BIN, "serve", "--dir", folder, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split(" at ", 1)[1].strip()
        with open(os.path.join(folder, "admin.token")) as token:
            self.admin = "Bearer " + token.read().strip()

    def asks(self, method, path, body=None, proof=None, form=None):
        data, headers = None, {}
        if form is not None:
            data, headers["content-type"] = form.encode(), "application/x-www-form-urlencoded"
        elif body is not None:
            data, headers["content-type"] = json.dumps(body).encode(), "application/json"
        if proof:
            headers["authorization"] = proof
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            kind = answer.headers.get("content-type", "").split(";")[0]
            return answer.status, kind, json.loads(answer.read() or "null")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(str(tmp_path_factory.mktemp("openapi") / "server"))
    yield server
    server.process.terminate()
    assert server.process.wait(timeout=30) == 0


def conforms(document, method, path, heard):
    """The response is one that the operation describes, and its body follows the schema."""
    status, kind, body = heard
    responses = document["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path} answered {heard}"
    response = resolved(document, responses[str(status)])
    if body is None:
        return
    assert kind in response["content"], f"{method} {path} answered {heard}"
    registry = Registry().with_resource(HERE, Resource(contents=document, specification=DRAFT202012))
    schema = json.loads(json.dumps(response["content"][kind]["schema"]).replace('"#/', f'"{HERE}#/'))
    wrong = [error.message for error in Draft202012Validator(schema, registry=registry).iter_errors(body)]
    assert not wrong, f"{method} {path} answered {heard}"


def test_the_served_document_is_the_printed_one(document, server):
    status, kind, served = server.asks("GET", "/openapi.json")
    assert (status, kind) == (200, "application/json")
    assert served["servers"] == [{"url": server.url}]
    # Under `serve` the chat page is off, so its paths are not served.
    assert set(served["paths"]) == {path for path in document["paths"] if path != "/" and not path.startswith("/chat")}


def test_real_answers_of_the_admin_api_follow_the_document(document, server):
    def admin(method, path, body=None, template=None):
        heard = server.asks(method, path, body, server.admin)
        conforms(document, method, template or path.split("?")[0], heard)
        return heard

    assert admin("POST", "/admin/tenants", {"name": "acme"})[0] == 201
    assert admin("POST", "/admin/tenants", {"name": "acme"})[0] == 409
    assert admin("POST", "/admin/tenants", {"name": "!"})[0] == 422
    assert admin("POST", "/admin/tenants", {"nam": "x"})[0] == 400
    assert admin("GET", "/admin/tenants/acme", template="/admin/tenants/{tenant}")[0] == 200
    assert admin("GET", "/admin/tenants/none", template="/admin/tenants/{tenant}")[0] == 404
    change = {"peer_post": "none", "storage_bytes": "default"}
    assert admin("PATCH", "/admin/tenants/acme", change, "/admin/tenants/{tenant}")[0] == 200
    assert admin("POST", "/admin/tenants/acme/token", {}, "/admin/tenants/{tenant}/token")[0] == 200
    assert admin("POST", "/admin/agents", {"tenant": "acme", "name": "heron"})[0] == 201
    assert admin("GET", "/admin/agents/heron", template="/admin/agents/{agent}")[0] == 200
    assert admin("PATCH", "/admin/agents/heron", {"hold_back": "off"}, "/admin/agents/{agent}")[0] == 200
    assert admin("POST", "/admin/agents/heron/rotate", {"all": True}, "/admin/agents/{agent}/rotate")[0] == 200
    assert admin("POST", "/admin/clients", {"tenant": "acme"})[0] == 201
    assert admin("POST", "/admin/clients", {"tenant": "acme", "agent": "heron", "login": True})[0] == 201
    connector = {"tenant": "acme", "name": "nowhere", "kind": "noop"}
    assert admin("POST", "/admin/connectors", connector)[0] == 201
    for path in ("/admin/connectors/acme/nowhere", "/admin/connectors/acme/relay"):
        assert admin("POST", f"{path}/check", template="/admin/connectors/{tenant}/{name}/check")[0] == 200
    assert admin("POST", "/admin/aliases", {"tenant": "acme", "name": "bird", "agent": "heron@home"})[0] == 201
    assert admin("GET", "/admin/platforms/telegram", template="/admin/platforms/{platform}")[0] == 200
    assert admin("POST", "/admin/invites", {"person": "Ann", "tenant": "acme"})[0] == 409
    assert admin("POST", "/admin/signing-keys", {})[0] == 200
    assert admin("POST", "/admin/scheduler-secrets")[0] == 200
    assert admin("POST", "/admin/backup", {"path": "relative"})[0] == 422
    for path, item in document["paths"].items():
        if path.startswith("/admin/") and "get" in item and "{" not in path and path != "/admin/jobs/history":
            required = [resolved(document, parameter) for parameter in item["get"].get("parameters", [])]
            required = [parameter["name"] for parameter in required if parameter.get("required")]
            query = "&".join(f"{name}={KNOWN[name]}" for name in required)
            assert admin("GET", f"{path}?{query}" if query else path)[0] in (200, 409), path
    assert admin("GET", "/admin/jobs/history?agent=heron")[0] == 200
    assert admin("GET", "/admin/tenants?limt=1")[0] == 400
    revoked = admin("POST", "/admin/agents/heron/revoke", {}, "/admin/agents/{agent}/revoke")
    assert revoked[0] == 200
    conforms(document, "GET", "/admin/tenants", server.asks("GET", "/admin/tenants"))


def test_real_answers_to_programs_follow_the_document(document, server):
    def admin(path, body):
        return server.asks("POST", f"/admin/{path}", body, server.admin)[2]

    admin("tenants", {"name": "zen"})
    admin("agents", {"tenant": "zen", "name": "otter"})
    client = admin("clients", {"tenant": "zen"})
    form = f"grant_type=client_credentials&client_id={client['client_id']}&client_secret={client['client_secret']}"
    granted = server.asks("POST", "/oauth/token", form=form)
    conforms(document, "POST", "/oauth/token", granted)
    for wrong in ("grant_type=other", "grant_type=client_credentials&client_id=x&client_secret=y"):
        conforms(document, "POST", "/oauth/token", server.asks("POST", "/oauth/token", form=wrong))
    conforms(document, "POST", "/api/oauth/token", server.asks("POST", "/api/oauth/token", form="grant_type=x"))
    proof = f"Bearer {granted[2]['access_token']}"

    def program(method, path, body=None, template=None):
        heard = server.asks(method, path, body, proof)
        conforms(document, method, template or path.split("?")[0], heard)
        return heard

    sent = program("POST", "/v1/notify", {"agent": "otter", "message": "good morning"})
    assert sent[0] == 200
    assert program("POST", "/v1/notify", {"agent": "otter"})[0] == 422
    assert program("POST", "/v1/wake", {"agent": "otter", "wait": 0})[0] == 200
    assert program("POST", "/v1/exchange", {"agent": "otter", "message": "ready?", "wait": 0})[0] == 202
    assert program("POST", "/v1/exchange", {"agent": "nobody", "message": "ready?"})[0] == 404
    dispatch = sent[2]["dispatch_id"]
    assert program("GET", f"/v1/receipts/{dispatch}", template="/v1/receipts/{dispatch_id}")[0] == 200
    assert program("GET", "/v1/receipts/none", template="/v1/receipts/{dispatch_id}")[0] == 404
    for path in ("/v1/receipts", "/v1/receipts?limit=1", "/v1/exchanges", "/v1/agents"):
        assert program("GET", path)[0] == 200
    assert program("GET", "/v1/agents/otter", template="/v1/agents/{name}")[0] == 200
    conforms(document, "GET", "/v1/agents", server.asks("GET", "/v1/agents"))
    receipts = server.asks("GET", f"/admin/receipts/{dispatch}", None, server.admin)
    conforms(document, "GET", "/admin/receipts/{dispatch}", receipts)
    for path in ("/admin/receipts", "/admin/inbox"):
        conforms(document, "GET", path, server.asks("GET", path, None, server.admin))
    trace = server.asks("GET", f"/admin/messages/{dispatch}", None, server.admin)
    conforms(document, "GET", "/admin/messages/{id}", trace)
