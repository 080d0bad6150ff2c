//! No secret lies in the clear in anything the ledger writes.

use std::path::Path;

use ledger::{Location, Uses};
use posthouse_wire::Secret;
use vault::MasterKeys;

use crate::safe::{Safe, credentials};

#[tokio::test]
async fn no_secret_lies_in_the_clear_in_ledger_log_or_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, successor) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let server_folder = folder.path().join("server");
    let safe = Safe::open_at(Location::Folder(server_folder.clone()), &keys).await;
    let heron = safe.enrols("acme", "heron").await;
    let mut canaries = vec!["canary-bot-token".to_owned(), "canary-webhook-secret".to_owned()];
    let pairs = [("token", &canaries[0][..]), ("webhook_secret", &canaries[1][..])];
    safe.vault.keep(&"telegram".into(), &"tb".into(), &credentials(&pairs)).await.unwrap();
    for _ in 0..2 {
        let secret = safe.vault.keyring().issue(&"gw".into(), &heron).await.unwrap().unwrap();
        canaries.push(secret.expose().to_owned());
    }
    let keyring = safe.vault.keyring();
    let (client, secret) =
        keyring.create_client(&vault::Owner::Instance(heron.clone())).await.unwrap().unwrap();
    let grant = keyring.grant_access(&client).await.unwrap().unwrap();
    let login = keyring.log_in(&heron).await.unwrap().unwrap();
    let tokens = [secret, grant.access_token, login.access.access_token, login.refresh_token];
    canaries.extend(tokens.map(|token| token.expose().to_owned()));
    canaries.push("canary-capability".to_owned());
    crate::capability::bind(&safe, &heron, &["key"], "canary-capability", None, Uses::Left(2)).await;
    let hook = safe.connects("acme", "hook").await;
    for (authorization, shared) in
        [("canary-authorization", "canary-hmac-secret"), ("canary-later", "canary-newer")]
    {
        safe.webhook_signer()
            .await
            .keep(&hook, Some(&Secret::new(authorization)), Some(&Secret::new(shared)))
            .await
            .unwrap();
        canaries.extend([authorization.to_owned(), shared.to_owned()]);
    }
    let operator = keyring.operator_access(&"ten_acme".into()).await.unwrap().unwrap();
    canaries.push(operator.access_token.expose().to_owned());
    let both = Secret::new(format!("{}{}", successor.expose(), keys.expose()));
    safe.unlocks_with(&both).await.unwrap();
    for key in [&keys, &successor] {
        canaries.push(key.expose().trim().split_once(':').unwrap().1.to_owned());
    }
    let backup = folder.path().join("backup.db");
    safe.ledger.facts().backup(&backup).await.unwrap();

    // The search does find what is there: names are no secret.
    assert!(lies_in(&std::fs::read(&backup).unwrap(), "webhook_secret"));
    let mut read = 0;
    for file in [
        backup,
        server_folder.join("ledger.db"),
        server_folder.join("ledger.db-wal"),
        server_folder.join("ledger.db-shm"),
    ] {
        read += free_of(&canaries, &file);
    }
    drop(safe);
    read += free_of(&canaries, &server_folder.join("ledger.db"));
    assert!(read > 100_000, "only {read} bytes were looked at");
}

/// How many bytes were looked at.
fn free_of(canaries: &[String], file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap();
    for (number, canary) in canaries.iter().enumerate() {
        assert!(!lies_in(&bytes, canary), "canary {number} lies in {}", file.display());
    }
    bytes.len()
}

fn lies_in(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
