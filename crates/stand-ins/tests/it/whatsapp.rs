//! WhatsApp stand-in: business-scoped ids, limits.

use serde_json::{Value, json};
use stand_ins::{
    harness::RowFilter,
    whatsapp::{Settings, WhatsAppLimits, WhatsAppStandIn},
};

use crate::actors::http;

async fn whatsapp(limits: Option<WhatsAppLimits>) -> WhatsAppStandIn {
    let numbers = vec!["106:canary:canary:canary".parse().unwrap()];
    WhatsAppStandIn::start(Settings { numbers, limits, ..Settings::default() }).await.unwrap()
}

async fn send(whatsapp: &WhatsAppStandIn, mut body: Value) -> (u16, Value) {
    body["messaging_product"] = json!("whatsapp");
    let url = format!("{}/v26.0/106/messages", whatsapp.base_url());
    let answer = http().post(url).bearer_auth("canary").json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn text(to: &str, who: &str) -> Value {
    json!({to: who, "type": "text", "text": {"body": "hi"}})
}

#[tokio::test]
async fn a_person_without_a_number_is_reached_by_recipient_and_not_by_to() {
    let whatsapp = whatsapp(None).await;
    let from = json!({"do": "message", "text": "psst", "from": {"number": null, "user_id": "US.5"}});
    whatsapp.inject(serde_json::from_value(from).unwrap()).unwrap();
    let (status, answer) = send(&whatsapp, text("recipient", "US.5")).await;
    assert_eq!((status, &answer["contacts"][0]["user_id"]), (200, &json!("US.5")));
    assert_eq!(send(&whatsapp, text("recipient", "15550177")).await.1["error"]["code"], 100);
    assert_eq!(send(&whatsapp, text("to", "15550177")).await.1["error"]["code"], 131_047);
}

#[tokio::test]
async fn limits_are_those_of_a_person_and_of_the_number() {
    let limits = WhatsAppLimits { per_number_per_second: 2, per_person_per_6_seconds: 1 };
    let whatsapp = whatsapp(Some(limits)).await;
    whatsapp.inject(serde_json::from_value(json!({"do": "message", "text": "hi"})).unwrap()).unwrap();
    assert_eq!(send(&whatsapp, text("to", "15550177")).await.0, 200);
    assert_eq!(send(&whatsapp, text("to", "15550177")).await.1["error"]["code"], 131_056);
    assert_eq!(send(&whatsapp, text("to", "15550177")).await.1["error"]["code"], 130_429);
    whatsapp.advance(std::time::Duration::from_secs(6));
    assert_eq!(send(&whatsapp, text("to", "15550177")).await.0, 200);
    assert_eq!(whatsapp.transcript(&RowFilter::sent("15550177")).len(), 2);
    assert!(!format!("{:?}", whatsapp.refusals(&RowFilter::default())).contains("canary"));
}
