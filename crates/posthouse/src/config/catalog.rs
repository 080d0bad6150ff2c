//! Catalog of all settings by path: type, help text and environment variable. A test compares it with the
//! structs.

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    Text,
    Number,
    Switch,
    List,
    /// A list of tables. No environment variable can hold it.
    Tables,
}

#[derive(Debug)]
pub struct Setting {
    pub path: &'static str,
    pub kind: ValueType,
    pub about: &'static str,
    /// Value for the example file if there is no default.
    pub sample: Option<&'static str>,
}

const fn setting(path: &'static str, kind: ValueType, about: &'static str) -> Setting {
    Setting { path, kind, about, sample: None }
}

const fn optional(path: &'static str, kind: ValueType, about: &'static str, sample: &'static str) -> Setting {
    Setting { path, kind, about, sample: Some(sample) }
}

/// The vault's keys themselves. They can only be set by the environment, because the file must not contain
/// secrets.
pub const VAULT_KEY: &str = "vault.key";

use ValueType::{List, Number, Switch, Tables, Text};

pub const SETTINGS: &[Setting] = &[
    setting("server.listen", Text, "address that the server listens on"),
    optional(
        "server.public_url",
        Text,
        "public URL for webhooks and agents, without a trailing slash; if it has a path, \
         everything is mounted below it. Default: http:// and the listener",
        "\"https://post.example\"",
    ),
    setting(
        "server.trusted_proxies",
        List,
        "proxies whose X-Forwarded-* headers are trusted, as ranges such as 10.0.0.0/8",
    ),
    setting("server.max_connections", Number, "maximum number of connections; further ones get 503"),
    setting("server.reserved_connections", Number, "additional connections for health and administration"),
    setting("server.max_connections_per_address", Number, "connections of one address before authentication"),
    setting("server.max_connections_per_principal", Number, "connections of one credential, agent or bot"),
    setting("server.header_timeout", Text, "timeout for the headers of a request"),
    setting("server.body_timeout", Text, "timeout for the body of a request"),
    setting("server.write_timeout", Text, "how long a peer may read nothing before its connection is closed"),
    setting("server.unfinished_body_bytes", Number, "memory for unfinished request bodies, in bytes"),
    setting("server.unsent_answer_bytes", Number, "memory for responses that are not written yet, in bytes"),
    optional(
        "server.tls.cert",
        Text,
        "certificate with its chain (PEM), if the server itself terminates TLS",
        "\"cert.pem\"",
    ),
    optional("server.tls.key", Text, "the certificate's private key (PEM)", "\"key.pem\""),
    setting("storage.data_bytes", Number, "limit on the bytes of one tenant's data"),
    setting("storage.dir", Text, "the folder of the ledger, relative to this file"),
    setting("storage.media_bytes", Number, "limit on the bytes of one tenant's files"),
    setting("storage.tenant_bytes", Number, "storage limit of one tenant, in bytes"),
    setting(
        "vault.key_file",
        Text,
        "the file with the vault's keys, the current one first; POSTHOUSE_VAULT__KEY can hold its text instead",
    ),
    setting(
        "identity.secret_reuse",
        Text,
        "how long a gateway that provisions itself again gets the same secret; at most 24h",
    ),
    setting(
        "identity.issuers",
        Tables,
        "OIDC issuers whose tokens may enrol and provision gateways; each is a table [[identity.issuers]] with issuer, \
         audience, jwks_url or keys_file, and optionally tenant_claim (tid) and tenants (value of the claim = tenant)",
    ),
    setting("limits.messages_per_minute", Number, "messages per minute to all agents of one tenant"),
    setting("limits.agent_messages_per_minute", Number, "messages per minute to one agent"),
    setting("limits.sockets", Number, "open sockets of all agents of one tenant"),
    setting("limits.agent_sockets", Number, "open sockets of one agent"),
    setting(
        "limits.actions_per_minute",
        Number,
        "actions per minute of all agents of one tenant; `typing` counts as a tenth",
    ),
    setting("limits.agent_actions_per_minute", Number, "actions per minute of one agent"),
    setting(
        "limits.requests_per_minute",
        Number,
        "HTTP requests per minute of the gateways of one tenant, to /relay and /manage",
    ),
    setting("limits.agent_requests_per_minute", Number, "the same for the gateways of one agent"),
    setting(
        "limits.program_requests_per_minute",
        Number,
        "HTTP requests per minute of the programs of one tenant, to /v1",
    ),
    setting(
        "limits.agent_program_requests_per_minute",
        Number,
        "the same for programs with the credential of one agent",
    ),
    setting(
        "relay.settle",
        Text,
        "pause after a stock agent has connected: it drops messages that arrive earlier",
    ),
    setting(
        "relay.ack_lease",
        Text,
        "how long an agent may take to acknowledge an entry before its socket counts as broken",
    ),
    setting("relay.access_token", Text, "lifetime of an access token; at least 15m"),
    setting("relay.wake_cooldown", Text, "shortest time between two calls to an agent's wake URL"),
    setting("relay.wake_at_most", Text, "longest time between two calls, after backing off"),
    setting(
        "relay.inbox_entries",
        Number,
        "maximum number of entries in one agent's inbox; further ones are refused",
    ),
    setting("relay.inbox_bytes", Number, "maximum size of one agent's inbox, in bytes"),
    setting(
        "platforms.discord.api_base_url",
        Text,
        "base URL of Discord's HTTP API; can point to a stand-in",
    ),
    setting(
        "platforms.feishu.api_base_url",
        Text,
        "base URL of the API of Feishu or Lark; can point to a stand-in",
    ),
    setting(
        "platforms.matrix.api_base_url",
        Text,
        "base URL of the homeserver of Matrix bots that name none; can point to a stand-in",
    ),
    setting("platforms.slack.api_base_url", Text, "base URL of Slack's Web API; can point to a stand-in"),
    setting("platforms.telegram.api_base_url", Text, "base URL of the Bot API; can point to a stand-in"),
    setting("platforms.twilio.api_base_url", Text, "base URL of Twilio's REST API; can point to a stand-in"),
    setting("platforms.wecom.api_base_url", Text, "base URL of WeCom's API; can point to a stand-in"),
    setting(
        "platforms.wecom.socket_url",
        Text,
        "address of the long connections of WeCom's AI bots; can point to a stand-in",
    ),
    setting(
        "platforms.whatsapp_cloud.api_base_url",
        Text,
        "base URL of the Graph API, without its version; can point to a stand-in",
    ),
    setting("platforms.whatsapp_cloud.graph_version", Text, "version of the Graph API, such as v26.0"),
    setting("platforms.web.enabled", Switch, "whether agents have the platform `web`"),
    setting(
        "platforms.web.page",
        Switch,
        "whether the chat page is served at /chat, for people with an invitation link; `posthouse up` turns it on",
    ),
    setting(
        "clock.guard",
        Text,
        "delay of a fire after its due time, for agents whose clock is slow; at most 2s",
    ),
    setting("clock.horizon", Text, "how far ahead armed jobs are held in memory"),
    setting("clock.in_flight", Number, "concurrent fires"),
    setting("clock.in_flight_per_agent", Number, "concurrent fires to one agent"),
    setting("clock.give_up_after", Text, "how long a fire is retried before it is given up"),
    setting("clock.give_up_for_next_after", Text, "the same for a job whose next time is already known"),
    setting("clock.arms_per_agent", Number, "jobs that one agent may have armed"),
    setting(
        "clock.requests_per_second",
        Number,
        "requests per second that one agent may make, in the long run",
    ),
    setting("clock.requests_at_once", Number, "burst of requests that one agent may make after a pause"),
    setting("clock.signing", Text, "algorithm of fire tokens: ES256 or RS256"),
    setting(
        "clock.pre_wake",
        Switch,
        "whether agents that are slow to wake are called ahead of their due time",
    ),
    setting("post.tmux", Switch, "whether connectors may type into terminal panes of this machine"),
    setting("post.tmux_program", Text, "tmux program: its name, or an absolute path"),
    setting(
        "post.tmux_sockets",
        List,
        "sockets of tmux servers that connectors may name, besides the usual one",
    ),
    setting("post.drop_dirs", List, "folders of this machine below which connectors may drop files"),
    setting("post.wake_wait", Text, "how long a wake waits for a connected agent by default; at most 60s"),
    setting("post.open_exchanges", Number, "questions that one tenant may have open"),
    setting(
        "post.caller_header",
        Text,
        "header in which a program names the caller that it acts for; it gives no rights",
    ),
    setting(
        "post.preamble",
        Switch,
        "whether agents without the SDK get a first line that says what a text is and who sent it",
    ),
    setting(
        "workshop.roots",
        List,
        "folders of this machine below which skill and data stores of tenants may be",
    ),
    setting(
        "workshop.run_commands",
        Switch,
        "whether a tenant's run settings may let its skills run commands and child processes on this machine",
    ),
    setting(
        "workshop.file_roots",
        List,
        "folders of this machine that a tenant's run settings may open to its skills",
    ),
    setting(
        "workshop.run_memory_bytes",
        Number,
        "bytes that all running skills hold together; at least twice that of a tenant",
    ),
    setting(
        "workshop.tenant_run_memory_bytes",
        Number,
        "bytes that the running skills of one tenant hold together",
    ),
    setting(
        "errand.allow_cidrs",
        List,
        "private addresses that the server may call when others name the URL, as ranges",
    ),
    setting("errand.allow_http", Switch, "whether such URLs may use plain http"),
    setting("errand.timeout", Text, "timeout for one call from start to end"),
    setting("metrics.open", Switch, "whether /metrics works without the admin token"),
    setting("log.format", Text, "text for people, json for programs"),
    setting("log.level", Text, "error, warn, info, debug or trace; also filters such as info,relay=debug"),
];

pub fn find(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

/// Whether the path is a section, that is, settings are below it.
pub fn is_section(path: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Every path that may be in a file: settings and their sections.
pub fn paths() -> Vec<&'static str> {
    let mut paths: Vec<&str> = Vec::new();
    for setting in SETTINGS {
        paths.push(setting.path);
        paths.extend(setting.path.match_indices('.').map(|(at, _)| &setting.path[..at]));
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// `relay.ack_lease` is `POSTHOUSE_RELAY__ACK_LEASE`.
pub fn variable(path: &str) -> String {
    format!("POSTHOUSE_{}", path.replace('.', "__").to_uppercase())
}
