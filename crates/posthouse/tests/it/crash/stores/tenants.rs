//! Tenants of the crash test of the stores: one for each kind of store, and one whose approvals are signed.

use std::sync::Arc;

use skill::ApprovalSigningKey;

use super::expected_skill::KeptHistory;
use super::store_client::StoreClient;
use crate::skill_cli::{PRIVATE_KEY, PUBLIC_KEY};
use crate::test_server::TestServer;

#[derive(Clone)]
pub struct StoreTenant {
    pub name: &'static str,
    pub kept: KeptHistory,
    /// The key with which the operator approves. `None`: a status is enough.
    pub signing_key: Option<Arc<ApprovalSigningKey>>,
    pub client: StoreClient,
}

impl StoreTenant {
    /// Creates all tenants. Stores in files lie below this folder.
    pub fn create_all(server: &TestServer, root: &str) -> Vec<Self> {
        let (per_write, per_version) = (KeptHistory::LinePerWrite, KeptHistory::LinePerVersion);
        let key = ApprovalSigningKey::from_pem(PRIVATE_KEY).unwrap();
        let tenants = [
            ("house", "house".to_owned(), per_write, None),
            ("folder", format!("filesystem:{root}/skills"), per_write, None),
            ("file", format!("sqlite:{root}/skills.db"), per_version, None),
            ("signed", "house".to_owned(), per_write, Some(Arc::new(key))),
        ];
        tenants.map(|(name, store, kept, key)| Self::create(server, name, &store, kept, key)).into()
    }

    fn create(
        server: &TestServer,
        name: &'static str,
        store: &str,
        kept: KeptHistory,
        signing_key: Option<Arc<ApprovalSigningKey>>,
    ) -> Self {
        server.does(&["tenant", "create", name]);
        server.does(&["tenant", "change", name, "--skill-store", store]);
        if name == "file" {
            let data = store.replace("skills.db", "data.db");
            server.does(&["tenant", "change", name, "--data-store", &data]);
        }
        if signing_key.is_some() {
            let public = server.secret_file("approval.pub", PUBLIC_KEY);
            server.does(&["approval-key", "add", "--tenant", name, "--public-key-file", &public]);
            server.does(&["tenant", "change", name, "--approval", "signed"]);
        }
        let client = StoreClient::of(&server.url, &server.does(&["client", "create", "--tenant", name]));
        Self { name, kept, signing_key, client }
    }

    /// Whether its skills are in the server's own store.
    pub fn is_house(&self) -> bool {
        matches!(self.name, "house" | "signed")
    }

    /// One tenant with the server's own data store, and one with a SQLite file.
    pub fn writes_data(&self) -> bool {
        matches!(self.name, "house" | "file")
    }
}
