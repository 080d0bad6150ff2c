//! Twilio stand-in: recipients, limits.

use stand_ins::{
    harness::RowFilter,
    twilio::{Settings, TwilioStandIn},
};

use crate::actors::http;

async fn send(twilio: &TwilioStandIn, fields: &[(&str, &str)]) -> u64 {
    let url = format!("{}/2010-04-01/Accounts/AC1/Messages.json", twilio.base_url());
    let answer = http().post(url).basic_auth("AC1", Some("canary")).form(fields).send().await.unwrap();
    let status = u64::from(answer.status().as_u16());
    let body: serde_json::Value = answer.json().await.unwrap();
    body["code"].as_u64().unwrap_or(status)
}

#[tokio::test]
async fn messages_are_checked_and_limited() {
    let accounts = vec!["AC1:canary:+15550100".parse().unwrap()];
    let settings = Settings { accounts, messages_per_second: Some(1), ..Settings::default() };
    let twilio = TwilioStandIn::start(settings).await.unwrap();
    for (to, from, body, code) in [
        ("", "+15550100", "x", 21_604),
        ("+1", "+15550100", "x", 21_211),
        ("+15550177", "", "x", 21_603),
        ("+15550177", "+15550100", "", 21_619),
        ("whatsapp:US.5", "whatsapp:+15550100", "x", 201),
        ("+15550177", "+15550100", "x", 20_429),
    ] {
        assert_eq!(
            send(&twilio, &[("To", to), ("From", from), ("Body", body)]).await,
            code,
            "{to} {from} {body}"
        );
    }
    assert_eq!(twilio.transcript(&RowFilter::kind("sent")).len(), 1);
    assert!(!format!("{:?}", twilio.refusals(&RowFilter::default())).contains("canary"));
}
