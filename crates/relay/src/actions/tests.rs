//! Test of one action: carried out once, and only in a chat of the agent.

use super::*;
use crate::tests::{RecordedActions, Records, bot_of};

fn send(request: &str, chat: &str) -> Outbound {
    let action = Action::Send {
        chat_id: chat.into(),
        content: "good morning".to_owned(),
        reply_to: None,
        metadata: Default::default(),
    };
    Outbound { request_id: request.into(), action, platform: None, bot_id: None }
}

#[tokio::test]
async fn a_request_is_carried_out_once_and_only_in_a_chat_of_the_agent() {
    let records = Records::open().await;
    let (heron, background) = (records.enrol("heron").await, records.background());
    let actions = Arc::new(Actions::new(
        records.ledger.outbox(),
        records.ledger.roster(),
        records.identity.quotas.clone(),
        Arc::default(),
        background.clone(),
    ));
    let connections = records.connections();
    let socket = connections.with_live_socket(&heron.instance, |seat| seat.gateway = heron.gateway.clone());
    let recorded = Arc::new(RecordedActions::default());
    let (egress, advertised): (Arc<dyn Egress>, _) = (recorded.clone(), [bot_of("heron")]);
    let of_agent = connections.of(&heron.instance);
    let asking = || RequestingSocket {
        socket,
        connections: &of_agent,
        holder: &heron,
        advertised: &advertised,
        proof: Proof::default(),
        egress: &egress,
        weight: 100,
    };
    records.append(&heron.instance, &bot_of("heron"), None).await;
    // The chat was delivered to the agent. The second request is a repeat of the first.
    for request in ["r1", "r1", "r2"] {
        assert_eq!(actions.accept(asking(), send(request, "c1")).await, None);
    }
    let foreign = Outbound { bot_id: Some("bot-egret".into()), ..send("r3", "c1") };
    let foreign = Outbound { platform: Some("telegram".into()), ..foreign };
    assert_eq!(actions.accept(asking(), foreign).await, None);
    background.tasks.close();
    background.tasks.wait().await;
    assert_eq!(recorded.0.lock().len(), 2, "of three requests to its own bot one is a repeat");
    let (lines, _) = connections.orders_of(&heron.instance, socket);
    assert_eq!(lines.len(), 3, "every request id has one result");
    assert!(lines.iter().any(|line| line.contains("r3") && line.contains("declined")), "{lines:?}");
}
