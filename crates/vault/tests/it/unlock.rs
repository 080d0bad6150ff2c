use ledger::Sealed;
use posthouse_wire::Secret;
use vault::{Fault, MasterKeys};

use crate::safe::{Safe, credentials, kept};

/// A key file of several keys, the current one first.
fn together(keys: &[&Secret]) -> Secret {
    Secret::new(keys.iter().map(|key| key.expose()).collect::<String>())
}

/// What is sealed for one bot's `token`.
async fn sealed(safe: &Safe) -> Sealed {
    safe.ledger.vault().credentials(&"telegram".into(), &"tb".into()).await.unwrap().remove(0).1
}

async fn keeps(safe: &Safe, bot: &str, pairs: &[(&str, &str)]) {
    safe.vault.keep(&"telegram".into(), &bot.into(), &credentials(pairs)).await.unwrap();
}

#[tokio::test]
async fn what_is_kept_comes_back_and_newer_replaces_older() {
    let safe = Safe::open().await;
    keeps(&safe, "tb", &[("token", "one"), ("webhook_secret", "äöü 🗝")]).await;
    keeps(&safe, "tb", &[("token", "two")]).await;
    keeps(&safe, "other", &[("token", "")]).await;
    assert_eq!(kept(&safe.vault, "tb", "token").await.as_deref(), Some("two"));
    assert_eq!(kept(&safe.vault, "tb", "webhook_secret").await.as_deref(), Some("äöü 🗝"));
    assert_eq!(kept(&safe.vault, "tb", "nothing").await, None);
    assert_eq!(kept(&safe.vault, "other", "token").await.as_deref(), Some(""));
    let all = safe.vault.credentials(&"telegram".into(), &"tb".into()).await.unwrap();
    let mut names: Vec<_> = all.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["token", "webhook_secret"]);
}

#[tokio::test]
async fn the_same_value_is_never_sealed_the_same_way_twice() {
    let safe = Safe::open().await;
    keeps(&safe, "tb", &[("token", "one")]).await;
    let first = sealed(&safe).await;
    keeps(&safe, "tb", &[("token", "one")]).await;
    assert_ne!(first.blob, sealed(&safe).await.blob);
}

#[tokio::test]
async fn a_sealed_value_that_was_moved_does_not_open() {
    let safe = Safe::open().await;
    keeps(&safe, "tb", &[("token", "one")]).await;
    let blob = sealed(&safe).await;
    let records = safe.ledger.vault();
    for (bot, name) in [("other", "token"), ("tb", "webhook_secret")] {
        records.put_credential(&"telegram".into(), &bot.into(), name, blob.clone()).await.unwrap();
        let opened = safe.vault.credentials(&"telegram".into(), &bot.into()).await;
        assert!(matches!(opened, Err(Fault::Broken)), "{bot} {name}");
    }
}

#[tokio::test]
async fn a_sealed_value_that_was_altered_does_not_open() {
    let safe = Safe::open().await;
    keeps(&safe, "tb", &[("token", "one")]).await;
    let whole = sealed(&safe).await;
    let mut forgeries: Vec<Vec<u8>> = (0..whole.blob.len())
        .map(|at| {
            let mut blob = whole.blob.clone();
            blob[at] ^= 1;
            blob
        })
        .collect();
    forgeries.extend((0..whole.blob.len()).map(|length| whole.blob[..length].to_vec()));
    let records = safe.ledger.vault();
    for blob in forgeries {
        let forged = Sealed { key_id: whole.key_id.clone(), blob };
        records.put_credential(&"telegram".into(), &"tb".into(), "token", forged).await.unwrap();
        let opened = safe.vault.credentials(&"telegram".into(), &"tb".into()).await;
        assert!(matches!(opened, Err(Fault::Broken)));
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_the_door_and_in_words() {
    let right = MasterKeys::generate().unwrap();
    let safe = Safe::open_at(ledger::Location::Memory, &right).await;
    let fault = safe.unlocks_with(&MasterKeys::generate().unwrap()).await.err().unwrap();
    assert!(matches!(fault, Fault::WrongKey(_)));
    assert!(fault.to_string().contains("does not fit this ledger"), "{fault}");
    // The right name over other bytes.
    let id = right.expose().split(':').next().unwrap();
    let other = MasterKeys::generate().unwrap();
    let forged = Secret::new(format!("{id}:{}", other.expose().split_once(':').unwrap().1));
    assert!(matches!(safe.unlocks_with(&forged).await.err(), Some(Fault::WrongKey(_))));
    assert!(safe.unlocks_with(&right).await.is_ok());
}

#[tokio::test]
async fn a_new_key_in_front_takes_everything_over_and_the_old_one_may_go() {
    let (old, new) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let safe = Safe::open_at(ledger::Location::Memory, &old).await;
    let heron = safe.enrols("acme", "heron").await;
    for number in 0..150 {
        keeps(&safe, &format!("bot-{number}"), &[("token", &format!("secret {number}"))]).await;
    }
    keeps(&safe, "odd#1/name", &[("a/b#c", "odd")]).await;
    safe.vault.keyring().issue(&"gw#1".into(), &heron).await.unwrap().unwrap();
    crate::capability::bind(&safe, &heron, &["key"], "ride", None, ledger::Uses::Many).await;

    safe.unlocks_with(&together(&[&new, &old])).await.unwrap();
    let vault = safe.unlocks_with(&new).await.unwrap();
    for number in 0..150 {
        let text = kept(&vault, &format!("bot-{number}"), "token").await;
        assert_eq!(text, Some(format!("secret {number}")));
    }
    assert_eq!(kept(&vault, "odd#1/name", "a/b#c").await.as_deref(), Some("odd"));
    let id = new.expose().split(':').next().unwrap();
    assert!(safe.ledger.vault().sealed_under_other_keys(id, 10).await.unwrap().is_empty());
    assert!(matches!(safe.unlocks_with(&old).await.err(), Some(Fault::WrongKey(_))));
}

#[tokio::test]
async fn a_new_key_takes_over_an_empty_vault_too() {
    let (old, new) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let safe = Safe::open_at(ledger::Location::Memory, &old).await;
    safe.unlocks_with(&together(&[&new, &old])).await.unwrap();
    assert!(safe.unlocks_with(&new).await.is_ok());
}

#[tokio::test]
async fn an_old_key_that_is_still_needed_is_asked_for_by_name() {
    let (old, new) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let safe = Safe::open_at(ledger::Location::Memory, &old).await;
    keeps(&safe, "tb", &[("token", "one")]).await;
    let fault = safe.unlocks_with(&new).await.err().unwrap();
    let id = old.expose().split(':').next().unwrap();
    assert!(fault.to_string().contains(id), "{fault}");
    assert_eq!(kept(&safe.vault, "tb", "token").await.as_deref(), Some("one"));
}

#[test]
fn a_key_file_that_cannot_be_read_says_what_is_wrong_and_shows_nothing_of_it() {
    let good = MasterKeys::generate().unwrap();
    let key = good.expose().trim();
    for (text, words) in [
        (String::new(), "contains no key"),
        ("\n \n".to_owned(), "contains no key"),
        ("canary".to_owned(), "id:base64"),
        ("id:canary!".to_owned(), "not base64"),
        ("id:Y2FuYXJ5".to_owned(), "32 bytes"),
        (format!(":{}", key.split_once(':').unwrap().1), "no id"),
        (format!("{key}\n{key}\n"), "same id"),
        (format!("{key}\ncanary"), "id:base64"),
    ] {
        let fault = MasterKeys::read(&Secret::new(text)).err().unwrap();
        assert!(fault.to_string().contains(words), "{fault}");
        assert!(!fault.to_string().contains("canary"), "{fault}");
    }
    assert!(MasterKeys::read(&Secret::new(format!("\r\n  {key}  \r\n"))).is_ok());
}
