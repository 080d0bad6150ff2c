//! Tests with access to decrypted keys: no private key is stored in plain text.

#![allow(clippy::unwrap_used)]

use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use ledger::{Ledger, Location, ServerKeyKind};
use posthouse_time::{Moment, Timepiece};

use super::{Algorithm, context};
use crate::{MasterKeys, Vault};

#[tokio::test]
async fn no_private_key_lies_in_the_clear_in_ledger_log_or_backup() {
    let folder = tempfile::tempdir().unwrap();
    let server_folder = folder.path().join("server");
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let ledger = Ledger::open(Location::Folder(server_folder.clone()), clock.clone()).await.unwrap();
    let keys = MasterKeys::read(&MasterKeys::generate().unwrap()).unwrap();
    let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock).await.unwrap();
    let signer = vault.signer(Algorithm::Es256).await.unwrap();
    let kid = signer.rotate(None, false).await.unwrap().kid;
    let scheduler_secret = signer.rotate_scheduler_secret().await.unwrap();
    let mut canaries = vec![scheduler_secret.expose().as_bytes().to_vec()];
    for kind in [ServerKeyKind::Signing, ServerKeyKind::CronMaster] {
        for record in ledger.vault().server_keys(kind).await.unwrap() {
            let plain = vault.keys.open(&context(kind, &record.name), &record.sealed).unwrap();
            canaries.push(plain.to_vec());
            if kind == ServerKeyKind::Signing {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &plain).unwrap();
                let number: EcPrivateKeyBin<'_> = pair.private_key().as_be_bytes().unwrap();
                canaries.push(number.as_ref().to_vec());
            }
        }
    }
    assert_eq!(canaries.len(), 6);
    let backup = folder.path().join("backup.db");
    ledger.facts().backup(&backup).await.unwrap();
    let files = [backup, server_folder.join("ledger.db"), server_folder.join("ledger.db-wal")];
    // The search does find what is there: a kid is no secret.
    assert!(files.iter().any(|file| lies_in(&std::fs::read(file).unwrap(), kid.as_bytes())));
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        for canary in &canaries {
            let texts = [hex::encode(canary), STANDARD_NO_PAD.encode(canary), URL_SAFE_NO_PAD.encode(canary)];
            assert!(!lies_in(&bytes, canary), "{}", file.display());
            assert!(!texts.iter().any(|text| lies_in(&bytes, text.as_bytes())), "{}", file.display());
        }
    }
    let shown = String::from_utf8(signer.jwks().json.to_vec()).unwrap();
    assert!(!shown.contains("\"d\"") && shown.contains(&kid));
}

fn lies_in(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
