use proptest::prelude::*;

use super::*;
use crate::status::{force_draft, set_status};

const SEED: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
";
const OTHER: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIP/////////////////////////////////////////w
-----END PRIVATE KEY-----
";
const EC_P256: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
";

fn key(pem: &str) -> (ApprovalSigningKey, ApprovalPublicKey) {
    let key = ApprovalSigningKey::from_pem(pem).unwrap();
    let public = key.public_key().unwrap();
    (key, public)
}

fn refused(verdict: &ApprovalVerdict) -> Option<&ApprovalRefusal> {
    match verdict {
        ApprovalVerdict::Approved { .. } => None,
        ApprovalVerdict::Refused(refusal) => Some(refusal),
    }
}

#[test]
fn a_signature_by_any_of_the_keys_is_accepted() {
    let ((first, first_public), (second, second_public)) = (key(SEED), key(OTHER));
    let keys = [first_public, second_public];
    for (index, signer) in [&first, &second].into_iter().enumerate() {
        let stamped = stamp("# Skill: a\nHi\n", signer);
        assert_eq!(
            check_approval(&stamped, ApprovalMode::Signed(&keys)),
            ApprovalVerdict::Approved { key: Some(index) }
        );
    }
    let stamped = stamp("# Skill: a\nHi\n", &second);
    let revoked = check_approval(&stamped, ApprovalMode::Signed(&keys[..1]));
    assert_eq!(refused(&revoked), Some(&ApprovalRefusal::InvalidSignature));
}

#[test]
fn a_new_stamp_replaces_the_old_one_and_keeps_the_line_ending() {
    let (signer, public) = key(SEED);
    let stamped = stamp("# Skill: a\r\n# Status: Approved v3:old\r\nHi\r\n", &signer);
    assert!(stamped.starts_with("# Skill: a\r\n# Status: Approved v3:") && stamped.ends_with("\r\nHi\r\n"));
    assert_eq!(stamped.matches("v3:").count(), 1);
    assert_eq!(stamp(&stamped, &signer), stamped);
    assert_eq!(refused(&check_approval(&stamped, ApprovalMode::Signed(&[public]))), None);
}

#[test]
fn a_stamp_is_read_even_if_an_indented_status_line_stands_above() {
    let (signer, public) = key(SEED);
    let keys = [public];
    let stamped = stamp("  # Status: Approved\n# Skill: a\n# Status: Approved\n", &signer);
    assert_eq!(refused(&check_approval(&stamped, ApprovalMode::Signed(&keys))), None, "{stamped}");
}

#[test]
fn a_signature_survives_a_rewrite_that_keeps_the_status() {
    let (signer, public) = key(SEED);
    let stamped = stamp("# Skill: a\nHi\n", &signer);
    let disagreeing = format!("{stamped}# Status: Draft\n");
    let keys = [public];
    assert_eq!(
        refused(&check_approval(&disagreeing, ApprovalMode::Signed(&keys))),
        Some(&ApprovalRefusal::StatusDisagrees)
    );
    let repaired = set_status(&disagreeing, Status::Approved);
    assert_eq!(refused(&check_approval(&repaired, ApprovalMode::Signed(&keys))), None);
    assert_eq!(repaired, stamped);
}

#[test]
fn keys_of_other_kinds_and_damaged_files_are_refused() {
    let fault = |pem: &str| ApprovalPublicKey::from_pem(pem).err();
    assert_eq!(fault(EC_P256), Some(KeyFault::NotEd25519));
    assert_eq!(fault(SEED), Some(KeyFault::NotPem("PUBLIC KEY")));
    assert_eq!(
        fault("-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----"),
        Some(KeyFault::NotPem("PUBLIC KEY"))
    );
    assert_eq!(fault(""), Some(KeyFault::NotPem("PUBLIC KEY")));
    assert_eq!(ApprovalSigningKey::from_pem(EC_P256).err(), Some(KeyFault::NotPem("PRIVATE KEY")));
    let short = "-----BEGIN PRIVATE KEY-----\nMC4CAQA=\n-----END PRIVATE KEY-----";
    assert_eq!(ApprovalSigningKey::from_pem(short).err(), Some(KeyFault::NotEd25519));
}

#[test]
fn a_token_has_one_version_and_one_signature() {
    let (_, public) = key(SEED);
    let keys = [public];
    let check = |token: &str| {
        let verdict = check_approval(&format!("# Status: Approved {token}\n"), ApprovalMode::Signed(&keys));
        refused(&verdict).cloned()
    };
    for malformed in ["v3:", "v:abc", "3:abc", "v3:ab=", "v3:a b", "vv3:abc", "v3"] {
        assert_eq!(check(malformed), Some(ApprovalRefusal::MalformedToken), "{malformed}");
    }
    assert_eq!(check("v0:a"), Some(ApprovalRefusal::ReservedVersion));
    assert_eq!(check("v03:a"), Some(ApprovalRefusal::UnsupportedVersion("v03".to_owned())));
    assert_eq!(check("v3:abc"), Some(ApprovalRefusal::InvalidSignature));
}

/// Texts of lines that matter to the gate or the parser.
const BODIES: &str = "((# (Status|Skill): [a-z]{1,3}|  # Status: Approved|```skill|```|\"\"\"|go:|x)\
                      (\r?\n|\r|\u{2028})){0,8}";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stamped_text_passes_and_its_forced_draft_does_not(body in BODIES) {
        let (signer, public) = key(SEED);
        let keys = [public];
        let stamped = stamp(&body, &signer);
        prop_assert_eq!(
            check_approval(&stamped, ApprovalMode::Signed(&keys)),
            ApprovalVerdict::Approved { key: Some(0) }
        );
        for mode in [ApprovalMode::Open, ApprovalMode::Signed(&keys)] {
            let verdict = check_approval(&force_draft(&stamped), mode);
            prop_assert_eq!(refused(&verdict), Some(&ApprovalRefusal::Draft));
        }
    }
}
