//! Connectors to agents that do not connect by themselves, and aliases of agents.

use bytes::Bytes;
use ledger::{
    Alias, ConnectorRecord, Created, DispatchVerb, Fault, NewReceipt, Opening, ReceiptState, Removed, Sealed,
};
use posthouse_wire::ConnectorId;

use crate::book::Book;

fn sealed(blob: &[u8]) -> Sealed {
    Sealed { key_id: "k1".to_owned(), blob: blob.to_vec() }
}

fn alias(tenant: &str, name: &str, agent: &str) -> Alias {
    Alias { tenant: tenant.into(), name: name.to_owned(), agent: agent.to_owned() }
}

impl Book {
    fn connector(&self, tenant: &str, name: &str) -> ConnectorRecord {
        ConnectorRecord {
            id: format!("con_{tenant}_{name}").into(),
            tenant: format!("ten_{tenant}").into(),
            name: name.to_owned(),
            kind: "webhook".to_owned(),
            settings: r#"{"agents":{}}"#.to_owned(),
            created: self.clock.now(),
        }
    }

    async fn connects(&self, tenant: &str, name: &str) -> ConnectorId {
        let new = self.connector(tenant, name);
        let id = new.id.clone();
        assert_eq!(self.ledger.connectors().create_connector(new, Vec::new()).await.unwrap(), Created::Made);
        id
    }

    fn outgoing(&self, tenant: &str, connector: &str, digest: u8) -> NewReceipt {
        NewReceipt {
            tenant: format!("ten_{tenant}").into(),
            dispatch: "d1".into(),
            digest: [digest; 16],
            connector: connector.to_owned(),
            agent: "desk".to_owned(),
            instance: None,
            chat: None,
            session: None,
            verb: DispatchVerb::Deliver,
            sender: "tenant:x".into(),
            sent_by: None,
            sent_at: self.clock.now(),
            accepted: self.clock.now(),
            skipped: false,
            open: Opening::Attempt { body: Bytes::from_static(b"{}"), due: self.clock.now() },
        }
    }

    async fn names(&self, tenant: Option<&str>) -> Vec<String> {
        let tenant = tenant.map(|name| format!("ten_{name}").into());
        let found = self.ledger.connectors().connectors(tenant.as_ref()).await.unwrap();
        found.into_iter().map(|connector| connector.name).collect()
    }

    async fn secrets(&self, of: &ConnectorId) -> Vec<(String, Vec<u8>)> {
        let found = self.ledger.vault().connector_secrets(of).await.unwrap();
        found.into_iter().map(|(name, sealed)| (name, sealed.blob)).collect()
    }
}

stories! {
    async fn a_connectors_name_is_unique_in_its_tenant_and_they_stand_in_the_order_of_their_making(book) {
        book.tenant("acme").await;
        book.tenant("umbrella").await;
        book.connects("acme", "zebra").await;
        book.connects("umbrella", "ant").await;
        book.connects("acme", "ant").await;
        assert_eq!(book.names(Some("acme")).await, ["zebra", "ant"]);
        assert_eq!(book.names(Some("umbrella")).await, ["ant"]);
        assert_eq!(book.names(None).await, ["zebra", "ant", "ant"]);
        let connectors = book.ledger.connectors();
        let again = ConnectorRecord { id: "con_again".into(), ..book.connector("acme", "ant") };
        assert_eq!(connectors.create_connector(again, Vec::new()).await.unwrap(), Created::Taken);
        let nowhere = connectors.create_connector(book.connector("nowhere", "ant"), Vec::new()).await.unwrap();
        assert_eq!(nowhere, Created::Unfit("no such tenant"));
        let found = connectors.connector(&"ten_acme".into(), "ant").await.unwrap();
        assert_eq!(found, Some(book.connector("acme", "ant")));
        assert_eq!(connectors.connector(&"ten_umbrella".into(), "zebra").await.unwrap(), None);
        connectors.remove_connector(&"ten_acme".into(), "zebra").await.unwrap();
        book.connects("acme", "zebra").await;
        assert_eq!(book.names(Some("acme")).await, ["ant", "zebra"], "made anew, it comes last");
    }

    async fn a_removed_connector_takes_its_secrets_along_and_a_neighbour_keeps_its_own(book) {
        book.tenant("acme").await;
        let (hook, other) = (book.connects("acme", "hook").await, book.connects("acme", "other").await);
        let vault = book.ledger.vault();
        for (of, name, blob) in [
            (&hook, "hmac_secret", &b"old"[..]),
            (&hook, "hmac_secret", b"new"),
            (&hook, "authorization", b"auth"),
            (&other, "hmac_secret", b"other"),
        ] {
            vault.put_connector_secret(of, name, sealed(blob)).await.unwrap();
        }
        let kept = [("authorization".to_owned(), b"auth".to_vec()), ("hmac_secret".to_owned(), b"new".to_vec())];
        assert_eq!(book.secrets(&hook).await, kept);
        let connectors = book.ledger.connectors();
        assert_eq!(connectors.remove_connector(&"ten_umbrella".into(), "hook").await.unwrap(), Removed::Absent);
        assert_eq!(connectors.remove_connector(&"ten_acme".into(), "hook").await.unwrap(), Removed::Gone);
        assert_eq!(connectors.remove_connector(&"ten_acme".into(), "hook").await.unwrap(), Removed::Absent);
        assert_eq!(book.secrets(&hook).await, []);
        assert_eq!(book.secrets(&other).await.len(), 1);
        let stray = vault.put_connector_secret(&hook, "hmac_secret", sealed(b"stray")).await;
        assert!(matches!(stray, Err(Fault::Storage(_))), "there is nobody to keep it for");
    }

    async fn what_a_removed_connector_had_still_to_deliver_has_failed_and_its_receipts_stay(book) {
        book.tenant("acme").await;
        book.tenant("umbrella").await;
        let receipts = book.ledger.receipts();
        for (tenant, connector, digest) in [("acme", "hook", 1), ("acme", "other", 2), ("umbrella", "hook", 3)] {
            book.connects(tenant, connector).await;
            receipts.open(book.outgoing(tenant, connector, digest)).await.unwrap();
        }
        let connectors = book.ledger.connectors();
        assert_eq!(connectors.remove_connector(&"ten_acme".into(), "hook").await.unwrap(), Removed::Gone);
        for (tenant, digest, state) in [
            ("ten_acme", 1, ReceiptState::Failed),
            ("ten_acme", 2, ReceiptState::Queued),
            ("ten_umbrella", 3, ReceiptState::Queued),
        ] {
            let receipt = receipts.receipt(&tenant.into(), &"d1".into(), [digest; 16]).await.unwrap().unwrap();
            assert_eq!(receipt.state, state, "{tenant} {digest}");
        }
        connectors.remove_connector(&"ten_acme".into(), "hook").await.unwrap();
    }

    async fn a_connectors_secrets_are_sealed_anew_with_the_rest(book) {
        book.tenant("acme").await;
        let hook = book.connects("acme", "hook").await;
        let vault = book.ledger.vault();
        vault.put_connector_secret(&hook, "hmac_secret", sealed(b"old")).await.unwrap();
        assert!(vault.sealed_under_other_keys("k1", 10).await.unwrap().is_empty());
        let (place, old) = vault.sealed_under_other_keys("k2", 10).await.unwrap().remove(0);
        assert_eq!(place.rsplit_once('#').unwrap().0, "connector/con_acme_hook/hmac_secret");
        let new = Sealed { key_id: "k2".to_owned(), blob: b"new".to_vec() };
        vault.reseal(&place, &sealed(b"another"), new.clone()).await.unwrap();
        assert_eq!(book.secrets(&hook).await[0].1, b"old", "it was replaced meanwhile");
        vault.reseal(&place, &old, new).await.unwrap();
        assert_eq!(book.secrets(&hook).await[0].1, b"new");
        assert!(vault.sealed_under_other_keys("k2", 10).await.unwrap().is_empty());
    }

    async fn an_alias_is_a_name_inside_its_tenant(book) {
        book.tenant("acme").await;
        book.tenant("umbrella").await;
        let connectors = book.ledger.connectors();
        let desk = alias("ten_acme", "desk", "desk@office.example");
        assert_eq!(connectors.create_alias(desk.clone()).await.unwrap(), Created::Made);
        let other = alias("ten_acme", "desk", "somebody else");
        assert_eq!(connectors.create_alias(other).await.unwrap(), Created::Taken);
        let theirs = alias("ten_umbrella", "desk", "otter");
        assert_eq!(connectors.create_alias(theirs.clone()).await.unwrap(), Created::Made);
        let nowhere = connectors.create_alias(alias("ten_x", "desk", "x")).await.unwrap();
        assert_eq!(nowhere, Created::Unfit("no such tenant"));
        assert_eq!(connectors.aliases(Some(&"ten_acme".into())).await.unwrap(), std::slice::from_ref(&desk));
        assert_eq!(connectors.aliases(None).await.unwrap(), [desk, theirs.clone()]);
        assert_eq!(connectors.remove_alias(&"ten_acme".into(), "desk").await.unwrap(), Removed::Gone);
        assert_eq!(connectors.remove_alias(&"ten_acme".into(), "desk").await.unwrap(), Removed::Absent);
        assert_eq!(connectors.aliases(None).await.unwrap(), [theirs]);
    }

    async fn agents_of_one_tenant_may_write_to_each_other_until_it_says_otherwise(book) {
        book.tenant("acme").await;
        book.tenant("umbrella").await;
        let connectors = book.ledger.connectors();
        let (acme, umbrella) = ("ten_acme".into(), "ten_umbrella".into());
        assert!(connectors.peers_may_write(&acme).await.unwrap());
        connectors.set_peers_may_write(&acme, false).await.unwrap();
        assert!(!connectors.peers_may_write(&acme).await.unwrap());
        assert!(connectors.peers_may_write(&umbrella).await.unwrap());
        connectors.set_peers_may_write(&acme, true).await.unwrap();
        assert!(connectors.peers_may_write(&acme).await.unwrap());
        assert!(!connectors.peers_may_write(&"ten_nobody".into()).await.unwrap());
    }

    async fn a_removed_tenant_takes_connectors_secrets_and_aliases_along(book) {
        let heron = book.enrols("acme", "heron").await;
        book.tenant("umbrella").await;
        let hook = book.connects("acme", "hook").await;
        let theirs = book.connects("umbrella", "hook").await;
        for of in [&hook, &theirs] {
            book.ledger.vault().put_connector_secret(of, "authorization", sealed(b"1")).await.unwrap();
        }
        let connectors = book.ledger.connectors();
        for tenant in ["ten_acme", "ten_umbrella"] {
            connectors.create_alias(alias(tenant, "desk", "heron")).await.unwrap();
        }
        let (roster, acme) = (book.ledger.roster(), "ten_acme".into());
        assert_eq!(roster.remove_tenant(&acme).await.unwrap(), Removed::InUse);
        assert_eq!(book.secrets(&hook).await.len(), 1, "a tenant that stays keeps what it has");
        roster.remove_instance(&heron).await.unwrap();
        assert_eq!(roster.remove_tenant(&acme).await.unwrap(), Removed::Gone);
        assert_eq!(book.names(None).await, ["hook"]);
        assert_eq!(connectors.aliases(None).await.unwrap(), [alias("ten_umbrella", "desk", "heron")]);
        assert_eq!((book.secrets(&hook).await.len(), book.secrets(&theirs).await.len()), (0, 1));
    }
}
