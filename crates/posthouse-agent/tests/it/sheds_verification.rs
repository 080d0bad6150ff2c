//! The SDK checks no platform's signature and knows no platform by name. The server is the only boundary,
//! and reading this crate shows everything that an agent can ever see.

use std::fs;
use std::path::Path;

const NAMES: [&str; 10] =
    ["discord", "telegram", "slack", "twilio", "wecom", "whatsapp", "matrix", "feishu", "dingtalk", "teams"];
/// Words that every signature check or decryption needs.
const CRYPTO: [&str; 12] = [
    "hmac",
    "ed25519",
    "sha256",
    "sha1",
    "aes",
    "x-signature",
    "signing_secret",
    "verify_delivery",
    "verify_slice",
    "public_key",
    "decrypt",
    "bizmsgcrypt",
];
/// The only proof that an agent checks: that a fire comes from its server.
const VERIFIES_FIRES: &str = "verify";
/// Crates that would provide these. TLS has its own, behind rustls; `verify` needs one.
const CRATES: [&str; 8] = ["hmac", "sha1", "sha2", "ed25519-dalek", "ring", "jsonwebtoken", "openssl", "rsa"];

#[test]
fn no_source_names_a_platform_or_checks_a_signature() {
    let mut files = 0;
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        files += 1;
        let text = text.to_lowercase();
        let fires = path.components().any(|part| {
            part.as_os_str() == VERIFIES_FIRES
                || Path::new(part.as_os_str()).file_stem() == Some(VERIFIES_FIRES.as_ref())
        });
        for word in NAMES.iter().chain(CRYPTO.iter().filter(|_| !fires)) {
            let stands_alone = text.match_indices(word).any(|(at, _)| {
                let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
                !letter(at.checked_sub(1).and_then(|before| text.as_bytes().get(before)))
                    && !letter(text.as_bytes().get(at + word.len()))
            });
            assert!(!stands_alone, "{} holds {word:?}", path.display());
        }
    });
    assert!(files > 10, "only {files} files were looked at");
}

#[test]
fn of_our_own_crates_only_wire_and_time_are_known_and_of_others_none_that_verifies() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let dependencies: Vec<&str> = manifest
        .split("[dependencies]")
        .nth(1)
        .unwrap()
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(dependencies.len() > 5);
    for ours in ["edge", "vault", "relay", "ledger", "bus", "errand", "console", "posthouse"] {
        assert!(!dependencies.contains(&ours), "{ours} is none of an agent's business");
    }
    for crypto in CRATES {
        assert!(!dependencies.contains(&crypto), "{crypto} would let an agent verify");
    }
}

fn visit(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, look);
        } else {
            look(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
