// Posthouse as the SkillStore, DataStore and AgentConnector of a skillscript runtime, over the HTTP API `/v1`.
//
//   import { bootstrap } from "skillscript-runtime";
//   import { connectPosthouse } from "./posthouse-skillscript.mjs";
//
//   const posthouse = connectPosthouse({ url, clientId, clientSecret });
//   const runtime = await bootstrap({ ...posthouse, skillsDir, traceDir });
//
// The only import is the runtime itself, because its callers recognise errors by their classes.

import {
  ApprovalRejectedError,
  ConnectorError,
  QueryError,
  SkillNotFoundError,
  StorageConflictError,
  TimeoutError,
  UnsupportedFilterError,
  VersionNotFoundError,
} from "skillscript-runtime/errors";

const CONTRACT_VERSION = "1.0.0";
/** A token is renewed this long before it expires. */
const RENEW_BEFORE_MS = 60_000;
/** How long a request may take. Waiting for an answer of an agent is added to it. */
const REQUEST_TIMEOUT_MS = 30_000;
/** The longest wait that the server allows in one call, in seconds. */
const LONGEST_WAIT_S = 60;
/** Skills per page of a list. */
const PAGE = 200;

/** A message could not be delivered to an agent. */
export class DeliveryFailedError extends ConnectorError {
  constructor(message, { agentId, causeKind, httpStatus }) {
    super(message, "agent_connector", PosthouseAgentConnector.name);
    this.name = "DeliveryFailedError";
    this.agent_id = agentId;
    this.cause_kind = causeKind;
    this.http_status = httpStatus;
  }
}

/** No connector of the agent can return an answer. */
export class NotImplementedError extends ConnectorError {
  constructor(message) {
    super(message, "agent_connector", PosthouseAgentConnector.name);
    this.name = "NotImplementedError";
  }
}

/**
 * The three connectors of one Posthouse server, for `bootstrap`.
 *
 * - `url`: the address of the server.
 * - `clientId`, `clientSecret`: from `posthouse client create --tenant NAME`.
 * - `agentId`: the name that writes carry as author if the runtime names none.
 */
export function connectPosthouse(options) {
  const client = new PosthouseClient(options);
  return {
    skillStore: new PosthouseSkillStore(client),
    dataStore: new PosthouseDataStore(client),
    agentConnector: new PosthouseAgentConnector(client),
  };
}

/** Requests to `/v1` with an access token, which is renewed before it expires and after it was refused. */
export class PosthouseClient {
  #base;
  #basic;
  #agentId;
  #token;
  #renewal;

  constructor({ url, clientId, clientSecret, agentId }) {
    for (const [name, value] of Object.entries({ url, clientId, clientSecret })) {
      if (typeof value !== "string" || value === "") throw new TypeError(`${name} must be a non-empty text`);
    }
    this.#base = url.replace(/\/+$/, "");
    this.#basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`;
    this.#agentId = agentId;
  }

  /** The parsed response. A response of 400 and above is thrown as a `ProblemResponse`. */
  async request(method, path, { query, body, timeoutMs = REQUEST_TIMEOUT_MS } = {}) {
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(query ?? {})) {
      for (const one of [value].flat()) if (one !== undefined) url.searchParams.append(name, String(one));
    }
    const send = async (token) =>
      fetch(url, {
        method,
        headers: {
          accept: "application/json",
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(this.#agentId === undefined ? {} : { "x-agent-id": this.#agentId }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
      });
    let response = await send(await this.#accessToken());
    if (response.status === 401) {
      // The token was revoked, or the server does not know it any more. The request was not carried out.
      this.#token = undefined;
      await response.body?.cancel();
      response = await send(await this.#accessToken());
    }
    return read(response);
  }

  async #accessToken() {
    if (this.#token !== undefined && Date.now() < this.#token.renewAt) return this.#token.value;
    // Calls that need a token at the same time share one request for it.
    this.#renewal ??= this.#requestToken().finally(() => (this.#renewal = undefined));
    return (await this.#renewal).value;
  }

  async #requestToken() {
    const response = await fetch(`${this.#base}/oauth/token`, {
      method: "POST",
      headers: { authorization: this.#basic, "content-type": "application/x-www-form-urlencoded" },
      body: "grant_type=client_credentials",
      redirect: "error",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const { access_token: value, expires_in: seconds } = await read(response);
    const lifetime = seconds * 1000;
    this.#token = { value, renewAt: Date.now() + Math.max(lifetime - RENEW_BEFORE_MS, lifetime / 2) };
    return this.#token;
  }
}

/** An error response of the server. */
class ProblemResponse extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.error_description ?? problem.title ?? `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? problem.error;
  }
}

async function read(response) {
  const text = await response.text();
  if (response.ok && text === "") return undefined;
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = response.ok ? undefined : {};
  }
  if (!response.ok) throw new ProblemResponse(response.status, parsed ?? {});
  if (parsed === undefined) throw new SyntaxError("the response is not JSON");
  return { ...parsed, ...(response.status === 202 ? { pending: true } : {}) };
}

const encode = encodeURIComponent;

/** Skills of the tenant. */
export class PosthouseSkillStore {
  #client;

  constructor(client) {
    this.#client = client;
  }

  static staticCapabilities() {
    return {
      connector_type: "skill_store",
      implementation: "PosthouseSkillStore",
      contract_version: CONTRACT_VERSION,
      features: {
        supports_writes: true,
        supports_versioning: true,
        supports_tag_filter: true,
        supports_audit_trail: true,
        supports_atomic_status_transitions: true,
      },
    };
  }

  async load(name, version) {
    return this.#call(name, "GET", `/v1/skills/${encode(name)}`, { query: { version } });
  }

  /** Follows the pages of the list until the wanted part is complete. */
  async query(filter = {}) {
    const { status, type, tag, author, since, name_pattern, offset = 0, limit = Infinity } = filter;
    const query = { status, type, tag, author, since, name_pattern, limit: PAGE };
    const found = [];
    let after;
    do {
      const page = await this.#call(undefined, "GET", "/v1/skills", { query: { ...query, after } });
      found.push(...page.items);
      after = page.next;
    } while (after !== undefined && found.length < offset + limit);
    return found.slice(offset, offset + limit);
  }

  async metadata(name) {
    return (await this.load(name)).metadata;
  }

  async versions(name) {
    const found = [];
    let after;
    do {
      const page = await this.#call(name, "GET", `/v1/skills/${encode(name)}/versions`, { query: { after } });
      found.push(...page.items);
      after = page.next;
    } while (after !== undefined);
    return found;
  }

  async store(name, source, metadata = {}) {
    const { author, status, metadata_bag } = metadata;
    const body = { source, author, status, metadata_bag };
    return this.#call(name, "PUT", `/v1/skills/${encode(name)}`, { body });
  }

  /** The runtime has asked its operator and looked for dependents before it calls this. */
  async delete(name) {
    await this.#call(name, "DELETE", `/v1/skills/${encode(name)}`, { query: { force: true } });
  }

  async update_status(name, status) {
    return this.#call(name, "POST", `/v1/skills/${encode(name)}/status`, { body: { status } });
  }

  async manifest() {
    const { capabilities_version, manifest } = await this.#call(undefined, "GET", "/v1/skill-store");
    return { capabilities_version, manifest };
  }

  async version() {
    return (await this.#call(undefined, "GET", "/v1/skill-store")).version;
  }

  async #call(name, method, path, options) {
    try {
      return await this.#client.request(method, path, options);
    } catch (error) {
      throw storeError(error, "skill_store", PosthouseSkillStore.name, name);
    }
  }
}

/** Data of the tenant. */
export class PosthouseDataStore {
  #client;

  constructor(client) {
    this.#client = client;
  }

  static staticCapabilities() {
    return {
      connector_type: "data_store",
      implementation: "PosthouseDataStore",
      contract_version: CONTRACT_VERSION,
      features: { supports_writes: true, supports_tag_filter: true },
    };
  }

  async query(filters) {
    return (await this.#call("POST", "/v1/data/query", { body: filters })).items;
  }

  /** Null if there is no such entry. */
  async get(id) {
    try {
      return await this.#call("GET", `/v1/data/${encode(id)}`);
    } catch (error) {
      if (error.cause?.status === 404) return null;
      throw error;
    }
  }

  async write(entry) {
    const { content, tags, recipients, expires_at, metadata } = entry;
    const { id, created_at } = await this.#call("POST", "/v1/data", {
      body: { content, tags, recipients, expires_at, metadata },
    });
    return { id, created_at };
  }

  async manifest() {
    const { capabilities_version, manifest } = await this.#call("GET", "/v1/data-store");
    return { capabilities_version, manifest };
  }

  async #call(method, path, options) {
    try {
      return await this.#client.request(method, path, options);
    } catch (error) {
      throw storeError(error, "data_store", PosthouseDataStore.name);
    }
  }
}

/** Agents of the tenant. */
export class PosthouseAgentConnector {
  #client;

  constructor(client) {
    this.#client = client;
  }

  static staticCapabilities() {
    return {
      connector_type: "agent_connector",
      implementation: "PosthouseAgentConnector",
      contract_version: CONTRACT_VERSION,
      features: {
        deliver: true,
        wake: true,
        list_agents: true,
        agent_status: true,
        health_check: true,
        request_response: true,
      },
    };
  }

  async list_agents() {
    const agents = [];
    let after;
    do {
      const page = await this.#call(undefined, "GET", "/v1/agents", { query: { limit: PAGE, after } });
      for (const { agent_id, agent_name } of page.items) agents.push({ agent_id, agent_name });
      after = page.next;
    } while (after !== undefined);
    return agents;
  }

  async deliver(agentId, payload) {
    const { kind, content, prompt, meta } = payload;
    const body = { agent_id: agentId, kind, content, prompt, meta };
    const sent = await this.#call(agentId, "POST", "/v1/deliver", { body });
    const { delivered_at, delivery_id, session_id, delivery_skipped, warnings } = sent;
    return { delivered_at, delivery_id, session_id, delivery_skipped, warnings };
  }

  async wake(agentId, { context, when, session_id } = {}) {
    const body = { agent: agentId, context, when, session_id };
    const wake = await this.#call(agentId, "POST", "/v1/wake", { body });
    const { woken_at, woken, warnings } = wake;
    return { woken_at, woken, session_id: wake.session_id, warnings };
  }

  /** Whether the server is reachable and accepts the credential. */
  async health_check() {
    try {
      await this.#client.request("GET", "/v1/agents", { query: { limit: 1 } });
      return true;
    } catch {
      return false;
    }
  }

  /** Asks, and attaches again until there is an answer or the time is over. */
  async request_response(agentId, payload, { timeout_ms: timeoutMs }) {
    const { meta, content, prompt } = payload;
    const wait = Math.min(timeoutMs / 1000, LONGEST_WAIT_S);
    const waiting = { timeoutMs: wait * 1000 + REQUEST_TIMEOUT_MS };
    const body = {
      agent: agentId,
      message: content ?? prompt,
      timeout: timeoutMs / 1000,
      wait,
      correlation_id: meta?.correlation_id,
      event_type: meta?.event_type,
      from: meta?.origin?.skill_name,
    };
    try {
      let answer = await this.#client.request("POST", "/v1/exchange", { body, ...waiting });
      while (answer.pending) {
        const path = `/v1/exchanges/${encode(answer.correlation_id)}`;
        answer = await this.#client.request("GET", path, { query: { wait: LONGEST_WAIT_S }, ...waiting });
      }
      const { correlation_id, sent_at, agent_id } = answer;
      return { correlation_id, content: answer.content, sent_at, agent_id };
    } catch (error) {
      if (error.code === "timeout") {
        throw new TimeoutError("agent_connector", PosthouseAgentConnector.name, error.problem.timeout_ms ?? timeoutMs);
      }
      throw deliveryError(error, agentId);
    }
  }

  async agent_status(agentId) {
    try {
      return (await this.#client.request("GET", `/v1/agents/${encode(agentId)}`)).status ?? "unknown";
    } catch (error) {
      if (error.status === 404) return "unknown";
      throw deliveryError(error, agentId);
    }
  }

  async #call(agentId, method, path, options) {
    try {
      return await this.#client.request(method, path, options);
    } catch (error) {
      throw deliveryError(error, agentId);
    }
  }
}

/** The error of the runtime for a failed request to a store. `cause` is what was seen. */
function storeError(error, connectorType, implementation, name) {
  const mapped = storeErrorClass(error, connectorType, implementation, name);
  mapped.cause = error;
  return mapped;
}

function storeErrorClass(error, connectorType, implementation, name) {
  if (error.name === "TimeoutError") return new TimeoutError(connectorType, implementation, REQUEST_TIMEOUT_MS);
  const problem = error.problem ?? {};
  switch (error.code) {
    case "skill_not_found":
      return new SkillNotFoundError(problem.skill_name ?? name, implementation);
    case "version_not_found":
      return new VersionNotFoundError(problem.skill_name ?? name, problem.version, implementation);
    case "storage_conflict":
      return new StorageConflictError(problem.skill_name ?? name, problem.reason ?? error.message, implementation);
    case "approval_rejected":
      return new ApprovalRejectedError(problem.skill_name ?? name, problem.reason ?? error.message, implementation);
    case "unsupported_filter":
      return new UnsupportedFilterError(problem.unsupported_keys, problem.supported_keys, problem.substrate);
    case "query":
      return new QueryError(error.message, connectorType, implementation, problem.mode);
    default:
      return new ConnectorError(error.message, connectorType, implementation);
  }
}

function deliveryError(error, agentId) {
  if (error.code === "not_implemented") return new NotImplementedError(error.message);
  const causeKind = error.problem?.cause_kind ?? guessedCause(error);
  const failed = new DeliveryFailedError(error.message, { agentId, causeKind, httpStatus: error.status ?? null });
  failed.cause = error;
  return failed;
}

function guessedCause(error) {
  if (error.name === "TimeoutError") return "timeout";
  if (error.status !== undefined) return error.status < 500 ? "client_validation" : "http_status";
  return error instanceof SyntaxError ? "malformed_response" : "network";
}
