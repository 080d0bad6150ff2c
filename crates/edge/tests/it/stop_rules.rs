//! Stop commands: the result of a message that is exactly `/stop`, on each platform.

use std::collections::BTreeMap;
use std::sync::Arc;

use edge::platform::Platform;
use edge::web::Web;
use ledger::{Ledger, Location};
use posthouse_time::Timepiece;
use relay::StopRule;

/// On Slack an interrupt stalls stock gateways, and a text of a program is never a command. A new platform gets a row.
const RULES: [(&str, StopRule); 12] = [
    ("discord", StopRule::InterruptIfTyping),
    ("feishu", StopRule::InterruptIfTyping),
    ("matrix", StopRule::InterruptIfTyping),
    ("slack", StopRule::Text),
    ("sms", StopRule::InterruptIfTyping),
    ("telegram", StopRule::InterruptIfTyping),
    ("web", StopRule::Interrupt),
    ("webhook", StopRule::Text),
    ("wecom", StopRule::InterruptIfTyping),
    ("wecom_callback", StopRule::InterruptIfTyping),
    ("whatsapp", StopRule::InterruptIfTyping),
    ("whatsapp_cloud", StopRule::InterruptIfTyping),
];

#[tokio::test]
async fn each_platform_says_what_a_stop_becomes() {
    let clock = Timepiece::wall();
    let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
    let (asked, threads) = (ledger.prompts(), ledger.threads());
    let web = Web::new(ledger.rooms(), ledger.invitations(), (asked, threads), clock.clone());
    let mut platforms = edge::platforms::all(&edge::Config::default(), &clock);
    platforms.push(Arc::new(web) as Arc<dyn Platform>);
    let rules = platforms.iter().map(|platform| (platform.name(), platform.stop_rule()));
    assert_eq!(rules.collect::<BTreeMap<_, _>>(), BTreeMap::from(RULES));
}
