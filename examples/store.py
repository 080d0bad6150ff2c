#!/usr/bin/env python3
"""A store of skills and data for Posthouse. docs/store-contract.md describes the contract.
POSTHOUSE_STORE_SECRET=… python3 store.py FILE [PORT]"""
import hashlib, hmac, json, os, sqlite3, sys, uuid
from wsgiref.simple_server import make_server

DB = sqlite3.connect(sys.argv[1])
DB.execute("CREATE TABLE IF NOT EXISTS tenants (id PRIMARY KEY, state)")  # state: one JSON object for each tenant

def find(of, name, with_text, version=None):
    skill = of["skills"].get(name)
    text = skill and skill["texts"].get(skill["record"]["version"] if version is None else version)
    return {"skill": skill and {"record": skill["record"], "mark": skill["mark"], "text": text}}

def page(of, after, limit, shown):
    names = sorted(name for name in of["skills"] if name > (after or ""))[:limit]
    return {"skills": [shown(of["skills"][name]) for name in names], "next": names[-1] if len(names) == limit else None}

def replace(of, name, expected, record, text, line):
    skill = of["skills"].get(name, {"mark": None, "texts": {}, "lines": []})
    if skill["mark"] != expected:
        return {"replaced": False}
    texts, lines = {**skill["texts"], line["version"]: text}, skill["lines"] + [line]
    of["skills"][name] = {"record": record, "mark": str(uuid.uuid4()), "texts": texts, "lines": lines}
    return {"replaced": True}

def query(of, query, limit, mode, filters):
    tags = filters.get("domain_tags")
    tags = {tags} if isinstance(tags, str) else tags and set(tags)
    tagged = lambda entry: tags is None or tags & set(entry.get("domain_tags", []))
    fits = lambda entry: tagged(entry) and all(word in entry["detail"].lower() for word in query.lower().split())
    return {"entries": [entry for entry in reversed(of["entries"].values()) if fits(entry)][:limit]}

def token(of):
    marks = sorted((name, skill["mark"]) for name, skill in of["skills"].items())
    return {"token": hashlib.sha256(json.dumps(marks).encode()).hexdigest()}

OPERATIONS = {
    "skills.manifest": lambda of: {"manifest": {"kind": "python-example"}},
    "skills.find": find, "skills.replace": replace, "skills.token": token,
    "skills.delete": lambda of, name: {"deleted": of["skills"].pop(name, None) is not None},
    "skills.list": lambda of, after, limit: page(of, after, min(limit, 500), lambda skill: skill["record"]),
    "skills.texts": lambda of, after, limit: page(of, after, min(limit, 5), lambda skill: {
        "name": skill["record"]["name"], "text": skill["texts"][skill["record"]["version"]]}),
    "skills.history": lambda of, name: {"versions": of["skills"].get(name, {"lines": []})["lines"]},
    "data.manifest": lambda of: {"manifest": {"kind": "python-example", "supported_filters": ["domain_tags"]}},
    "data.query": query, "data.get": lambda of, id: {"entry": of["entries"].get(id)},
    "data.write": lambda of, entry: {"id": entry["id"], "created_at": of["entries"].setdefault(
        entry["id"], entry)["created_at"]},
}

def serve(environ, start_response):
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    signature = "sha256=" + hmac.new(os.environ["POSTHOUSE_STORE_SECRET"].encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signature, environ.get("HTTP_X_SIGNATURE", "")):
        start_response("403 Forbidden", [])
        return []
    request = json.loads(body)
    operation, tenant, _ = OPERATIONS[request.pop("operation")], request.pop("tenant"), request.pop("contract")
    with DB:  # one transaction, committed before the answer
        row = DB.execute("SELECT state FROM tenants WHERE id = ?", [tenant]).fetchone()
        of = json.loads(row[0]) if row else {"skills": {}, "entries": {}}
        answer = operation(of, **request)
        DB.execute("INSERT INTO tenants VALUES (?1, ?2) ON CONFLICT DO UPDATE SET state = ?2 WHERE state <> ?2",
                   [tenant, json.dumps(of)])
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]

server = make_server("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8090, serve)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
