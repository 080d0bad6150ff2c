//! Closed bots: from their creation to the first message that is admitted.

use stand_ins::telegram::{Filter, TelegramStandIn};

use crate::talk::{PATIENCE, Rider, says, telegram};
use crate::test_server::TestServer;

/// The pairing code that the bot told in this chat.
async fn code_in(telegram: &TelegramStandIn, chat: i64) -> String {
    let said = |telegram: &TelegramStandIn| telegram.transcript(&Filter::sent(chat));
    assert!(telegram.until(PATIENCE, |telegram| !said(telegram).is_empty()).await, "nobody was answered");
    let text = said(telegram)[0].text.clone().unwrap();
    let code = text.split("runs it: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    code.expect("a notice names a code").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_reaches_nobody_until_the_operator_admits_by_code() {
    for mode in ["webhook", "poll"] {
        let telegram = telegram(&["7001:token@posty_bot"]).await;
        let server =
            TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
        let token = server.secret_file("token", "7001:token");
        let made = server.does(&[
            "bot",
            "create",
            "telegram",
            "--id",
            "7001",
            "--mode",
            mode,
            "--token-file",
            &token,
        ]);
        assert_eq!(made["open"], false, "closed by default");
        server.does(&["tenant", "create", "acme"]);
        let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
        let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;

        says(&telegram, 7001, 5, "let me in");
        let code = code_in(&telegram, 5).await;
        let pending = server.does(&["access", "list", "--bot", "telegram:7001"]);
        assert_eq!(
            (&pending["items"][0]["state"], &pending["items"][0]["code"]),
            (&"pending".into(), &code.clone().into())
        );
        let allowed = server.does(&["access", "allow", "telegram:7001", &code.to_lowercase()]);
        assert_eq!((&allowed["state"], &allowed["subject"]), (&"allowed".into(), &"user:5".into()));
        says(&telegram, 7001, 5, "thank you");
        assert_eq!(rider.hears().await.event.text, "thank you", "and nothing before it");

        assert_eq!(server.does(&["access", "remove", "telegram:7001", "user:5"])["subject"], "user:5");
        // A bot answers one stranger a second, so this may take a second message.
        let answered_again = |telegram: &TelegramStandIn| telegram.transcript(&Filter::sent(5)).len() > 1;
        let answered = async {
            while !telegram.until(std::time::Duration::from_millis(300), answered_again).await {
                says(&telegram, 7001, 5, "still there?");
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.expect("a stranger again, and told so");
        // What the stranger wrote last must not arrive after the bot is open.
        assert!(telegram.until(PATIENCE, |telegram| telegram.deliveries(None).pending == 0).await);
        assert_eq!(server.does(&["bot", "change", "telegram:7001", "--open"])["open"], true);
        says(&telegram, 7001, 6, "everybody");
        assert_eq!(rider.hears().await.event.text, "everybody", "and nothing before it");
        assert!(!server.tries(&["access", "allow", "telegram:7001", &code]).status.success(), "used up");
    }
}
