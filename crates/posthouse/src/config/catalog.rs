//! Every setting by its path: what it is for and how the environment says it. A test holds this table
//! to the structs.

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Switch,
    List,
}

#[derive(Debug)]
pub struct Setting {
    pub path: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    /// Shown in the example where there is no default.
    pub sample: Option<&'static str>,
}

const fn setting(path: &'static str, kind: Kind, about: &'static str) -> Setting {
    Setting { path, kind, about, sample: None }
}

const fn optional(path: &'static str, kind: Kind, about: &'static str, sample: &'static str) -> Setting {
    Setting { path, kind, about, sample: Some(sample) }
}

/// The vault's keys themselves. From the environment alone: a secret has no place in this file.
pub const VAULT_KEY: &str = "vault.key";

use Kind::{List, Number, Switch, Text};

pub const SETTINGS: &[Setting] = &[
    setting("server.listen", Text, "where the house listens"),
    optional(
        "server.public_url",
        Text,
        "the one address that is handed out (webhooks, agents), without a trailing slash; may hold a path, \
         then everything is mounted under it. Without it: http:// and the listener",
        "\"https://post.example\"",
    ),
    setting("server.trusted_proxies", List, "whose X-Forwarded-* counts, as ranges such as 10.0.0.0/8"),
    setting("server.max_connections", Number, "connections held at once; further ones are closed at once"),
    setting("server.header_timeout", Text, "how long a request's headers may take"),
    setting("server.body_timeout", Text, "how long a request's body may take"),
    optional(
        "server.tls.cert",
        Text,
        "certificate with its chain (PEM), when the house itself speaks TLS",
        "\"cert.pem\"",
    ),
    optional("server.tls.key", Text, "the certificate's private key (PEM)", "\"key.pem\""),
    setting("storage.dir", Text, "the folder of the ledger, relative to this file"),
    setting(
        "vault.key_file",
        Text,
        "the file with the vault's keys, the current one first; or POSTHOUSE_VAULT__KEY holds its text",
    ),
    setting(
        "relay.settle",
        Text,
        "how long a stock agent is left alone after it dialed in: it drops what reaches it earlier",
    ),
    setting("relay.ack_lease", Text, "how long an agent may sit on an entry before its socket counts as bad"),
    setting("relay.ping_every", Text, "how often an idle socket is pinged"),
    setting("relay.silent_after", Text, "how long a peer may be silent before its socket is dropped"),
    setting("relay.hello_within", Text, "how long a socket may stay without an accepted hello"),
    setting("relay.answer_within", Text, "when a request is answered at the latest, done or not"),
    setting("relay.standby", Text, "how long a superseded socket without requests is kept"),
    setting("relay.token_leeway", Text, "how far past its expiry a token is still good at the door"),
    setting("relay.access_token", Text, "how long an access token is good; no less than 15m"),
    setting("relay.wake_cooldown", Text, "the least time between two pokes of one agent's wake URL"),
    setting("relay.wake_at_most", Text, "the longest time between two pokes, after backing off"),
    setting(
        "relay.inbox_entries",
        Number,
        "entries kept for one agent; past it the oldest are dropped and counted",
    ),
    setting("relay.inbox_bytes", Number, "bytes kept for one agent, likewise"),
    setting("platforms.telegram.api_base_url", Text, "where the Bot API is; a stand-in can play it"),
    setting("platforms.web.enabled", Switch, "whether the built-in chat is served at /chat"),
    setting(
        "clock.guard",
        Text,
        "how long after its due time a fire is made, for agents whose clock runs behind; at most 2s",
    ),
    setting("clock.horizon", Text, "how far ahead armed jobs are held in memory"),
    setting("clock.in_flight", Number, "fires under way at once"),
    setting("clock.in_flight_per_agent", Number, "fires under way at once to one agent"),
    setting("clock.in_flight_per_host", Number, "fires under way at once to one host"),
    setting("clock.attempt_timeout", Text, "how long an agent has to answer a fire"),
    setting("clock.give_up_after", Text, "how long a fire is tried again before it is given up"),
    setting("clock.give_up_for_next_after", Text, "the same for a job whose next time is already known"),
    setting("clock.lease", Text, "how long one node holds an armed job before another may take it"),
    setting("clock.arms_per_agent", Number, "jobs that one agent may have armed"),
    setting("clock.requests_per_second", Number, "requests that one agent may make in a second"),
    setting("clock.signing", Text, "what fire tokens are signed with: ES256 or RS256"),
    setting(
        "clock.pre_wake",
        Switch,
        "whether agents that are slow to wake are poked ahead of their due time",
    ),
    setting("post.tmux", Switch, "whether connectors may type into terminal panes of this machine"),
    setting("post.tmux_program", Text, "what types into them: the name of a program, or an absolute path"),
    setting(
        "post.tmux_sockets",
        List,
        "sockets of tmux servers that connectors may name, besides the usual one",
    ),
    setting("post.drop_dirs", List, "folders of this machine below which connectors may drop files"),
    setting(
        "post.wake_wait",
        Text,
        "how long a wake waits for a connected agent, unless the call says; at most 60s",
    ),
    setting("post.open_exchanges", Number, "questions that one tenant may have open"),
    setting("post.caller_header", Text, "the header in which a fronting host names its own caller"),
    setting(
        "post.preamble",
        Switch,
        "whether agents that are not of our SDK are told in a first line what a text is and who sent it",
    ),
    setting("errand.allow_cidrs", List, "private addresses that URLs named by others may lead to, as ranges"),
    setting("errand.allow_http", Switch, "whether such URLs may be plain http"),
    setting("errand.connect_timeout", Text, "for the lookup, the connection and the TLS handshake together"),
    setting("errand.timeout", Text, "for one call from start to end"),
    setting("metrics.open", Switch, "whether /metrics answers without the admin token"),
    setting("log.format", Text, "text for people, json for programs"),
    setting("log.level", Text, "error, warn, info, debug or trace; also filters such as info,relay=debug"),
];

pub fn find(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

/// Whether settings lie under this path.
pub fn is_section(path: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Every path that may stand in a file: settings and the sections that hold them.
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
