//! Recorded approvals: signed texts, tokens, stamps and verdicts of the gate.

use serde_json::{Value, json};
use skill::{
    ApprovalMode, ApprovalPublicKey, ApprovalRefusal, ApprovalSigningKey, ApprovalVerdict, ContentHash,
    check_approval, gate_line, signed_text, stamp,
};

use crate::recorded::{contract, list, programs, text};

/// Stamps where we keep what the reference loses, with the section that says so.
const STAMPED_OTHERWISE: &[(&str, &str)] = &[("crlf", "agents-and-stores 4.1: the line ending is kept")];

/// Texts that the reference's gate passes and ours refuses, with the section that says so.
const REFUSED_BY_US: &[(&str, &str)] = &[(
    "second_status_line_in_body",
    "agents-and-stores 4.1: where gate and parser find different words the skill counts as Draft",
)];

fn keys(file: &Value) -> (ApprovalSigningKey, ApprovalPublicKey) {
    let pair = &file["keypair"];
    let public = ApprovalPublicKey::from_pem(text(pair, "publicKeyPem")).unwrap();
    (ApprovalSigningKey::from_pem(text(pair, "privateKeyPem")).unwrap(), public)
}

fn passes(body: &str, mode: ApprovalMode<'_>) -> bool {
    matches!(check_approval(body, mode), ApprovalVerdict::Approved { .. })
}

#[test]
fn key_files_are_pkcs8_and_spki() {
    let file = contract("approval.json");
    let (signing, public) = keys(&file);
    assert_eq!(signing.public_key().unwrap().as_bytes(), public.as_bytes());
    assert_eq!(hex::encode(public.as_bytes()), text(&file["keypair"], "public_raw_hex"));
}

#[test]
fn the_signed_text_the_token_and_the_stamp_are_those_of_the_reference() {
    let file = contract("approval.json");
    let (signing, public) = keys(&file);
    let keys = [public];
    for case in list(&file["signed"]) {
        let (id, body) = (text(&case, "id"), text(&case, "body"));
        assert_eq!(signed_text(body), text(&case, "canonical"), "{id}");
        assert_eq!(ContentHash::of(&signed_text(body)).as_str(), text(&case, "canonical_sha256"), "{id}");
        let stamped = stamp(body, &signing);
        assert_eq!(gate_line(&stamped).unwrap().token, case["token"].as_str(), "{id}");
        assert_eq!(
            Value::from(passes(&stamped, ApprovalMode::Signed(&keys))),
            case["stamped_gate_ok"],
            "{id}"
        );
        if STAMPED_OTHERWISE.iter().any(|(ours, _)| *ours == id) {
            let recorded = text(&case, "stamped");
            assert_ne!(stamped, recorded, "{id}");
            assert_eq!(stamped.replace("\r\n", "\n"), recorded.replace("\r\n", "\n"), "{id}");
        } else {
            assert_eq!(stamped, text(&case, "stamped"), "{id}");
        }
    }
}

#[test]
fn the_gate_gives_the_recorded_verdicts_in_both_modes() {
    let file = contract("approval.json");
    let keys = [keys(&file).1];
    for case in list(&file["gate"]) {
        let (id, body) = (text(&case, "id"), text(&case, "body"));
        let line = gate_line(body).filter(|line| line.status().is_some());
        let extracted =
            line.map_or(Value::Null, |line| json!({"status": line.status(), "approvalToken": line.token}));
        assert_eq!(extracted, case["extracted"], "{id}");
        let (open, signed) = (ApprovalMode::Open, ApprovalMode::Signed(&keys));
        if REFUSED_BY_US.iter().any(|(ours, _)| *ours == id) {
            let refusal = ApprovalVerdict::Refused(ApprovalRefusal::StatusDisagrees);
            assert_eq!(check_approval(body, open), refusal, "{id}");
            assert_eq!(check_approval(body, signed), refusal, "{id}");
        } else {
            assert_eq!(Value::from(passes(body, open)), case["unsecured"]["ok"], "{id}, open");
            assert_eq!(Value::from(passes(body, signed)), case["secured"]["ok"], "{id}, signed");
        }
    }
}

#[test]
fn without_a_key_no_signature_passes() {
    let file = contract("approval.json");
    let stamped = stamp("# Skill: a\n", &keys(&file).0);
    assert_eq!(file["no_public_key"]["ok"], false);
    let verdict = check_approval(&stamped, ApprovalMode::Signed(&[]));
    assert_eq!(verdict, ApprovalVerdict::Refused(ApprovalRefusal::NoKey));
}

#[test]
fn signed_programs_have_the_token_that_we_compute() {
    let (signing, _) = keys(&contract("approval.json"));
    let mut signed = 0;
    for program in programs().iter().filter(|program| program["options"]["sign_main"] == true) {
        let stamped = stamp(text(program, "source"), &signing);
        let token = |body: &str| gate_line(body).unwrap().token.map(str::to_owned);
        assert_eq!(token(&stamped), token(text(program, "signed_source")), "{}", text(program, "id"));
        signed += 1;
    }
    assert!(signed > 0);
}
