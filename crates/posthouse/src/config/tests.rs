use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::catalog::{self, SETTINGS};
use super::*;

/// A folder that is deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("posthouse-config-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file that only its owner can read, as key files must be.
    fn key(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn read(&self, text: &str, variables: &[(&str, &str)]) -> Result<Config, Fault> {
        let file = self.0.join("posthouse.toml");
        std::fs::write(&file, text).unwrap();
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        reading::read(&file, variables)
    }

    fn complaint(&self, text: &str, variables: &[(&str, &str)]) -> String {
        let fault = self.read(text, variables).map(|_| ()).unwrap_err();
        fault.to_string().replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn leaves(prefix: &str, table: &Table, into: &mut Vec<String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => leaves(&path, table, into),
            _ => into.push(path),
        }
    }
}

#[test]
fn a_folder_that_was_never_initialised_names_the_command_that_creates_it() {
    let folder = Folder::new("never-initialised");
    let fault = reading::read(&folder.0.join("posthouse.toml"), []).map(|_| ()).unwrap_err();
    assert!(fault.to_string().ends_with("does not exist: create it with `posthouse init DIR`"), "{fault}");
}

#[test]
fn the_catalog_names_every_setting_there_is_and_no_other() {
    let mut full = Config::default();
    full.server.public_url = Some("https://h".to_owned());
    full.server.tls = Some(TlsSection::default());
    let mut fields = Vec::new();
    leaves("", &Table::try_from(&full).unwrap(), &mut fields);
    let mut known: Vec<String> = SETTINGS.iter().map(|setting| setting.path.to_owned()).collect();
    fields.sort();
    known.sort();
    assert_eq!(fields, known);
}

#[test]
fn a_mistyped_key_is_named_with_its_line_and_the_nearest_known_one() {
    let folder = Folder::new("typo");
    for (text, complaint) in [
        (
            "[server]\nlisten = \"127.0.0.1:1\"\n\n[relay]\nack_leese = \"3s\"\n",
            "posthouse.toml:5: unknown key `relay.ack_leese`; the nearest known key is `relay.ack_lease`",
        ),
        ("[realy]\n", "posthouse.toml:1: unknown key `realy`; the nearest known key is `relay`"),
        (
            "\nplatforms.telegram.api_url = 1",
            "posthouse.toml:2: unknown key `platforms.telegram.api_url`; \
             the nearest known key is `platforms.telegram.api_base_url`",
        ),
        (
            "colour = 'red'",
            "posthouse.toml:1: unknown key `colour`; `posthouse config print --example` shows every key",
        ),
    ] {
        assert_eq!(folder.complaint(text, &[]), complaint);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_line_and_setting() {
    let folder = Folder::new("types");
    for (text, start) in [
        ("[relay]\n\nack_lease = 3\n", "posthouse.toml:3: relay.ack_lease: invalid type: integer"),
        (
            "[relay]\nack_lease = \"3 apples\"\n",
            "posthouse.toml:2: relay.ack_lease: `3 apples` is not a duration",
        ),
        ("[server]\nlisten = \"here\"\n", "posthouse.toml:2: server.listen: "),
        ("[server]\ntrusted_proxies = [\"10.0.0.0/99\"]\n", "posthouse.toml:2: server.trusted_proxies: "),
        ("[metrics]\nopen = \"yes\"\n", "posthouse.toml:2: metrics.open: invalid type: string"),
        ("[log]\nformat = \"xml\"\n", "posthouse.toml:2: log.format: "),
        ("relay = 5\n", "posthouse.toml:1: "),
        ("[server\n", "posthouse.toml:1: "),
        ("[log]\nlevel = \"a\"\nlevel = \"b\"\n", "posthouse.toml:3: "),
    ] {
        let complaint = folder.complaint(text, &[]);
        assert!(complaint.starts_with(start), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn the_environment_stands_over_the_file_and_each_value_knows_where_it_came_from() {
    let folder = Folder::new("environment");
    let config = folder
        .read(
            "[relay]\nack_lease = \"5s\"\nsettle = \"1s\"\n",
            &[
                ("POSTHOUSE_RELAY__ACK_LEASE", "3s"),
                ("POSTHOUSE_RELAY__INBOX_ENTRIES", "7"),
                ("POSTHOUSE_METRICS__OPEN", "true"),
                ("POSTHOUSE_ERRAND__ALLOW_CIDRS", "127.0.0.0/8, ::1"),
                ("POSTHOUSE_SERVER__TLS__CERT", "c.pem"),
                ("POSTHOUSE_SERVER__TLS__KEY", "/k.pem"),
                ("POSTHOUSE_URL", "http://elsewhere"),
                ("POSTHOUSE_DIR", "x"),
            ],
        )
        .unwrap();
    assert_eq!(config.relay.ack_lease, Span::seconds(3));
    assert_eq!(config.relay.inbox_entries, 7);
    assert!(config.metrics.open);
    assert_eq!(config.errand.allow_cidrs.len(), 2);
    let tls = config.server.tls.clone().unwrap();
    assert_eq!((tls.cert, tls.key), (folder.0.join("c.pem"), PathBuf::from("/k.pem")));
    let file = folder.0.join("posthouse.toml");
    for (path, origin) in [
        ("relay.ack_lease", ValueOrigin::Environment("POSTHOUSE_RELAY__ACK_LEASE".to_owned())),
        ("relay.settle", ValueOrigin::File { file, line: 3 }),
        ("relay.wake_cooldown", ValueOrigin::Default),
    ] {
        assert_eq!(config.origin(path), origin);
    }
    let settle = config.printed().into_iter().find(|printed| printed.key == "relay.settle").unwrap();
    assert_eq!(settle.value.as_deref(), Some("\"1s\""));
    assert!(settle.origin.ends_with("posthouse.toml:3"));
}

#[test]
fn a_wrong_variable_is_named() {
    let folder = Folder::new("variables");
    for ((name, value), complaint) in [
        (
            ("POSTHOUSE_RELAY__ACK_LEES", "3s"),
            "unknown setting; the nearest known is POSTHOUSE_RELAY__ACK_LEASE",
        ),
        (("POSTHOUSE_RELAY_ACK_LEASE", "3s"), "did you mean POSTHOUSE_RELAY__ACK_LEASE?"),
        (("POSTHOUSE_RELAY__ACK_LEASE", "3"), "`3` is not a duration"),
        (("POSTHOUSE_RELAY__INBOX_BYTES", "many"), "`many` is not a whole number"),
        (("POSTHOUSE_METRICS__OPEN", "yes"), "`yes` is neither true nor false"),
        (("POSTHOUSE_SERVER__LISTEN", "7678"), "invalid socket address syntax"),
    ] {
        let told = folder.complaint("", &[(name, value)]);
        assert!(told.starts_with(&format!("environment variable {name}: {complaint}")), "{told}");
    }
}

#[test]
fn the_vault_key_comes_from_the_environment_or_a_file_and_is_never_printed() {
    let folder = Folder::new("vault");
    folder.key("vault.key", "k1:from-the-file\n");
    let config = folder.read("", &[]).unwrap();
    assert_eq!(config.vault_key().unwrap().0.expose(), "k1:from-the-file\n");

    let config = folder.read("", &[("POSTHOUSE_VAULT__KEY", "k2:canary")]).unwrap();
    assert_eq!(config.vault_key().unwrap().0.expose(), "k2:canary");
    let printed = serde_json::to_string(&config.printed()).unwrap();
    assert!(printed.contains("vault.key") && !printed.contains("canary"), "{printed}");

    folder.key("other.key", "k3:other");
    let config = folder.read("", &[("POSTHOUSE_VAULT__KEY_FILE", "other.key")]).unwrap();
    assert_eq!(config.vault_key().unwrap().0.expose(), "k3:other");

    let both = [("POSTHOUSE_VAULT__KEY", "k2:canary"), ("POSTHOUSE_VAULT__KEY_FILE", "other.key")];
    assert!(folder.complaint("", &both).contains("not both"));
    let told = folder.complaint("[vault]\nkey = \"k2:canary\"\n", &[]);
    assert!(
        told.starts_with("posthouse.toml:2: secrets are not allowed") && !told.contains("canary"),
        "{told}"
    );
    let missing =
        folder.read("[vault]\nkey_file = \"gone\"\n", &[]).unwrap().vault_key().map(|_| ()).unwrap_err();
    assert!(format!("{missing:#}").contains("gone"), "{missing:#}");
}

#[test]
fn settings_that_contradict_each_other_are_refused_in_words() {
    let folder = Folder::new("relations");
    for (text, complaint) in [
        ("[server]\npublic_url = \"https://h/\"\n", "server.public_url must not end with a slash"),
        ("[server]\npublic_url = \"h\"\n", "server.public_url must begin with http:// or https://"),
        ("[server]\npublic_url = \"https:///x\"\n", "server.public_url names no host"),
        (
            "[server]\npublic_url = \"https://h/?q\"\n",
            "server.public_url must consist of scheme, host, port and path only",
        ),
        ("[server.tls]\ncert = \"c.pem\"\n", "server.tls needs both cert and key"),
        ("[server]\nmax_connections = 0\n", "server.max_connections must be at least 1"),
        ("[clock]\nhorizon = \"10s\"\n", "clock.horizon must be at least 1m"),
        ("[errand]\ntimeout = \"0s\"\n", "errand.timeout must be longer than 0s"),
    ] {
        assert_eq!(folder.complaint(text, &[]), format!("posthouse.toml: {complaint}"));
    }
}

#[test]
fn the_public_address_is_the_listener_unless_said_otherwise() {
    let at: SocketAddr = "127.0.0.1:4711".parse().unwrap();
    let mut config = Config::default();
    assert_eq!(config.public_url(at), "http://127.0.0.1:4711");
    assert_eq!(config.public_url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80");
    assert_eq!(config.prefix(), "");
    config.server.public_url = Some("https://h:8/base/deep".to_owned());
    assert_eq!(
        (config.public_url(at).as_str(), config.prefix().as_str()),
        ("https://h:8/base/deep", "/base/deep")
    );
}

#[test]
fn the_example_and_the_fresh_file_are_read_as_the_defaults() {
    let folder = Folder::new("example");
    let whole = example();
    let plain = folder.read("", &[]).unwrap();
    let defaults: Vec<_> = plain.printed().into_iter().map(|printed| printed.value).collect();
    for text in [FRESH, whole.as_str()] {
        let values: Vec<_> = folder.read(text, &[]).unwrap().printed().into_iter().map(|p| p.value).collect();
        assert_eq!(values, defaults);
    }
    // Also with every setting uncommented.
    let spoken: String = example()
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| is_setting(line)).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = folder.read(&spoken, &[]).unwrap();
    assert_eq!(config.server.public_url.as_deref(), Some("https://post.example"));
    for setting in SETTINGS {
        assert_ne!(config.origin(setting.path), ValueOrigin::Default, "{}", setting.path);
    }
}

#[test]
fn issuers_are_tables_of_the_file_and_no_variable() {
    let folder = Folder::new("issuers");
    let text = "[server]\npublic_url = \"https://h\"\n[[identity.issuers]]\nissuer = \"https://login\"\n\
                audience = \"h\"\nkeys_file = \"keys.json\"\n[identity.issuers.tenants]\n\"42\" = \"acme\"\n";
    let config = folder.read(text, &[("POSTHOUSE_LOG__LEVEL", "warn")]).unwrap();
    let [issuer] = &config.identity.issuers[..] else { panic!("one issuer") };
    assert_eq!(issuer.keys_file.as_deref(), Some(folder.0.join("keys.json").as_path()));
    assert_eq!((issuer.tenant_claim.as_str(), issuer.tenants["42"].as_str()), ("tid", "acme"));
    for (text, variables, complaint) in [
        (text.replace("https://login", "https://h"), vec![], "this server is not an issuer for itself"),
        (text.replace("keys_file", "keys_fil"), vec![], "unknown field `keys_fil`"),
        (text.replace("audience = \"h\"\n", ""), vec![], "missing field `audience`"),
        (String::new(), vec![("POSTHOUSE_IDENTITY__ISSUERS", "x")], "can only be set in the file"),
        (
            String::new(),
            vec![("POSTHOUSE_IDENTITY__SECRET_REUSE", "25h")],
            "identity.secret_reuse must be at most 24h",
        ),
    ] {
        let heard = folder.complaint(&text, &variables);
        assert!(heard.contains(complaint), "{heard}");
    }
}

#[test]
fn a_retired_setting_is_a_warning_that_names_it_and_has_no_effect() {
    let folder = Folder::new("retired");
    let config = folder
        .read(
            "[relay]\nsettle = \"1s\"\nping_every = \"7s\"\n\n[errand]\nconnect_timeout = 9\n",
            &[("POSTHOUSE_CLOCK__ATTEMPT_TIMEOUT", "4s")],
        )
        .unwrap();
    assert_eq!(config.relay, relay::Config { settle: Span::seconds(1), ..relay::Config::default() });
    assert_eq!(config.clock, clock::Config::default());
    let file = folder.0.join("posthouse.toml");
    let file = file.display();
    let mut warnings: Vec<String> = config.warnings().collect();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            format!("{file}:3: relay.ping_every is no longer a setting and has no effect; remove it"),
            format!("{file}:6: errand.connect_timeout is no longer a setting and has no effect; remove it"),
            "POSTHOUSE_CLOCK__ATTEMPT_TIMEOUT: clock.attempt_timeout is no longer a setting and has no effect; \
             remove it"
                .to_owned(),
        ]
    );
    let printed = config.printed();
    let ping_every = printed.iter().find(|printed| printed.key == "relay.ping_every").unwrap();
    assert_eq!(ping_every.value.as_deref(), Some("(no longer a setting, no effect)"));
    // The settings around a retired one are checked as always.
    let complaint = folder.complaint("[relay]\nping_every = \"7s\"\nack_lease = 3\n", &[]);
    assert!(complaint.starts_with("posthouse.toml:3: relay.ack_lease: invalid type: integer"), "{complaint}");
}

#[test]
fn a_retired_setting_is_not_a_setting() {
    for path in retired::RETIRED {
        assert!(catalog::find(path).is_none() && !catalog::is_section(path), "{path}");
    }
}

fn is_setting(line: &str) -> bool {
    line.starts_with('[') || line.split_once(" = ").is_some_and(|(name, _)| !name.contains(' '))
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let fault = reading::read(Path::new("/nowhere/posthouse.toml"), []).map(|_| ()).unwrap_err();
    assert!(fault.to_string().starts_with("/nowhere/posthouse.toml does not exist"), "{fault}");
    assert_eq!(catalog::variable("relay.ack_lease"), "POSTHOUSE_RELAY__ACK_LEASE");
}
