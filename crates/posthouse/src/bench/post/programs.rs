//! Programs that call `notify`, on keep-alive connections, each with its tenant's token and its own
//! conversation.

use anyhow::{Context, ensure};
use ledger::{Ledger, Location, Owner, ReceiptFilter, ReceiptState};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use vault::{MasterKeys, Vault};

use super::super::fixtures::{ServerFixture, busy_chat};
use super::super::load::Posters;
use super::super::poster::{PLACE, Poster, WORDS};
use super::super::server::ServerProcess;

/// Receipts read at once.
const PAGE: u32 = 10_000;

/// An access token for the tenant of every agent under load, created before the server runs.
pub async fn passes(fixture: &ServerFixture) -> anyhow::Result<Vec<Secret>> {
    let timepiece = Timepiece::wall();
    let ledger = Ledger::open(Location::Folder(fixture.folder.clone()), timepiece.clone()).await?;
    let keys = MasterKeys::read(&Secret::new(std::fs::read_to_string(fixture.folder.join("vault.key"))?))?;
    let facts = ledger.facts();
    let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*facts, timepiece).await?;
    let keyring = vault.keyring();
    let mut passes = Vec::with_capacity(fixture.loaded.len());
    for agent in &fixture.loaded {
        let client = keyring.create_client(&Owner::Tenant(agent.tenant.clone())).await?;
        let (client, _) = client.context("a fresh tenant was refused a client")?;
        let grant = keyring.grant_access(&client).await?;
        passes.push(grant.context("a fresh client was refused a token")?.access_token);
    }
    // The ledger can be opened by the server only after the last handle is dropped.
    drop((keyring, vault, facts, ledger));
    Ok(passes)
}

/// As many programs as the relay load has posters, to the same agents, with the same text. Each program is
/// named after the number of that poster's chat and sends the number of the message. The server chooses the
/// dispatch id.
pub async fn connect(
    server: &ServerProcess,
    fixture: &ServerFixture,
    passes: &[Secret],
    count: u32,
) -> anyhow::Result<Posters> {
    let address = server.address()?;
    let mut programs = Vec::with_capacity(count as usize);
    for at in 0..count {
        let to = at as usize % fixture.loaded.len();
        let body = format!(
            "{{\"agent\":\"{}\",\"message\":\"{WORDS}\",\"correlation_id\":\"{PLACE}\",\"from\":\"{}\"}}",
            fixture.loaded[to].name,
            busy_chat(at)
        );
        let request = format!(
            "POST /v1/notify HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            passes[to].expose(),
            body.len()
        );
        programs.push(Poster::open(address, request).await?);
    }
    Ok(Posters::of(programs))
}

/// Checks the ledger after the server has ended: there are `count` receipts, all acknowledged.
pub async fn every_receipt_is_acknowledged(fixture: &ServerFixture, count: u64) -> anyhow::Result<()> {
    let ledger = Ledger::open(Location::Folder(fixture.folder.clone()), Timepiece::wall()).await?;
    let receipts = ledger.receipts();
    let (mut before, mut seen) = (None, 0);
    loop {
        let page = receipts.receipts(ReceiptFilter::default(), before, PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.key);
        seen += page.len() as u64;
        let open = page.iter().find(|receipt| receipt.state != ReceiptState::Acknowledged);
        if let Some(open) = open {
            anyhow::bail!("the receipt of {} is {}", open.dispatch, open.state.word());
        }
    }
    ensure!(seen == count, "{count} notify calls were answered, but {seen} have a receipt");
    Ok(())
}
