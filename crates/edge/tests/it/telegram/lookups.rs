//! DNS lookups of the Telegram client: a host whose lookups hang delays nobody who uses another host.

use std::sync::{Arc, Condvar, Mutex, mpsc};

use edge::OpenedBot;
use edge::platform::Platform;
use errand::SystemLookup;
use posthouse_time::Timepiece;
use serde_json::json;

use super::actors::{Fixture, LONG, open, send};

/// Most lookups of one host at the same time, as `errand` limits them.
const PER_HOST: usize = 4;

/// A resolver that knows every host as loopback. Lookups of `hanging.example` wait until they are released.
#[derive(Clone, Default)]
struct HangingResolver(Arc<(Mutex<bool>, Condvar)>);

impl HangingResolver {
    /// `asked` hears of every lookup when it begins.
    fn lookup(&self, asked: mpsc::Sender<String>) -> SystemLookup {
        let HangingResolver(gate) = self.clone();
        SystemLookup::with(move |host| {
            let _ = asked.send(host.to_owned());
            if host == "hanging.example" {
                let (released, changed) = &*gate;
                drop(changed.wait_while(released.lock().unwrap(), |released| !*released).unwrap());
            }
            Ok(vec![[127, 0, 0, 1].into()])
        })
    }

    fn release(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// The fixture's bot, whose Bot API is at the stand-in under this host name.
fn bot_at(fixture: &Fixture, host: &str) -> OpenedBot {
    let base = fixture.stand_in.base_url().replace("127.0.0.1", host);
    assert!(base.contains(host), "{base}");
    super::actors::bot(json!({"username": "posty_bot", "bot_user_id": "42", "api_base_url": base}))
}

#[test]
fn a_host_whose_lookups_hang_delays_neither_other_bots_nor_the_blocking_threads() {
    // One blocking thread, which a single hanging lookup would hold.
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    let (resolver, (asked, begun)) = (HangingResolver::default(), mpsc::channel());
    runtime.block_on(async {
        let mut fixture = open(Timepiece::wall()).await;
        fixture.telegram = fixture.telegram.clone().with_lookup(resolver.lookup(asked));
        let [hanging, working] = ["hanging.example", "working.example"].map(|host| bot_at(&fixture, host));

        let (telegram, hanging) = (Arc::new(fixture.telegram.clone()), Arc::new(hanging));
        let stuck: Vec<_> = (0..100)
            .map(|n| {
                let (telegram, hanging) = (Arc::clone(&telegram), Arc::clone(&hanging));
                let order = fixture.order(send("5", &format!("stuck {n}")));
                tokio::spawn(async move { telegram.perform(&hanging, order).await })
            })
            .collect();
        let mut hosts = Vec::new();
        while hosts.len() < PER_HOST {
            hosts.extend(begun.try_iter());
            tokio::task::yield_now().await;
        }

        // A bot at another host sends, and a blocking thread is free.
        let sent = fixture.telegram.perform(&working, fixture.order(send("6", "meanwhile"))).await;
        assert!(sent.outcome.success, "{:?}", sent.outcome);
        tokio::time::timeout(LONG, tokio::task::spawn_blocking(|| ())).await.unwrap().unwrap();
        assert_eq!(fixture.sent(6), ["meanwhile"]);
        hosts.extend(begun.try_iter());
        assert_eq!(hosts.iter().filter(|host| *host == "hanging.example").count(), PER_HOST, "{hosts:?}");
        assert!(hosts.contains(&"working.example".to_owned()), "{hosts:?}");

        assert!(fixture.sent(5).is_empty());
        resolver.release();
        stuck.iter().for_each(tokio::task::JoinHandle::abort);
    });
}
