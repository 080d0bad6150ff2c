//! Append rate of this disk, in entries per second: 256 callers, each appends and acknowledges in turn. With
//! `receipts` every entry carries a receipt, as the message of a program does, and dispatch ids grow with
//! time. With `random` they do not grow, so each dirties another page of their index.
//!
//! `cargo run --profile fast -p ledger --example append_rate [PAIRS [receipts|random]]`

use bytes::Bytes;
use ledger::{
    Acknowledgement, Append, DispatchVerb, Fault, InboxLimits, Ledger, Location, NewReceipt, Opening, Sender,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::InstanceId;

const CALLERS: u64 = 256;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pairs: u64 = std::env::args().nth(1).map_or(Ok(200_000), |count| count.parse())?;
    let receipts = std::env::args().nth(2);
    let folder = tempfile::tempdir_in(".")?;
    let clock = Timepiece::wall();
    let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), clock.clone()).await?;
    let (start, busy) = (clock.now(), cpu_ticks()?);
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| tokio::spawn(call(ledger.clone(), caller, pairs / CALLERS, receipts.clone())))
        .collect();
    for caller in callers {
        caller.await??;
    }
    let done = (pairs / CALLERS * CALLERS) as f64;
    let seconds = clock.now().since(start).as_secs_f64();
    // The kernel counts in hundredths of a second.
    let micros = (cpu_ticks()? - busy) as f64 * 10_000.0;
    let log = std::fs::metadata(folder.path().join("ledger.db-wal"))?.len();
    println!("{:.0} pairs/s, {:.0} rows written/s", done / seconds, 2.0 * done / seconds);
    println!("{:.1} us of CPU a pair, callers included", micros / done);
    println!("{:.1} rows a commit", 2.0 * done / ledger.commits() as f64);
    println!("{:.1} MiB of log", log as f64 / (1024.0 * 1024.0));
    Ok(())
}

async fn call(ledger: Ledger, caller: u64, pairs: u64, receipts: Option<String>) -> Result<(), Fault> {
    let (inbox, clock) = (ledger.inbox(), Timepiece::wall());
    let event = Bytes::from(vec![b'x'; 600]);
    let instance = InstanceId::new(format!("inst_0198c0ffee0000000000000000{caller:06}"));
    for number in 0..pairs {
        let now = clock.now();
        let message = format!("{}", caller * pairs + number);
        let receipt = receipts.as_deref().map(|ids| {
            let number = caller * pairs + number;
            let time = now.millis().unsigned_abs() << 16;
            let id = if ids == "random" { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { time };
            Box::new(receipt(&instance, id, number, now))
        });
        let append = Append {
            to: instance.clone(),
            platform: "telegram".into(),
            bot: "tb".into(),
            chat: format!("9001002{caller:03}").into(),
            message: Some(message.as_str().into()),
            dedup: message.into(),
            event: event.clone(),
            references: Vec::new(),
            album: None,
            forward: None,
            accepted: now,
            sighting: None,
            receipt,
            id: None,
            sender: Some(Sender::Person(format!("9001002{caller:03}"))),
            limits: InboxLimits { entries: 10_000, bytes: 256 * 1024 * 1024 },
            stale: None,
            turn: Default::default(),
        };
        let kept = inbox.append(append).await?;
        let taken = vec![Acknowledgement {
            entry: kept.entry().cloned().ok_or(Fault::Full)?,
            handed: now,
            place: None,
        }];
        inbox.acknowledge(&instance, taken).await?;
    }
    Ok(())
}

/// As long as a real one, under a dispatch id that begins like `id` and ends in `number`.
fn receipt(instance: &InstanceId, id: u64, number: u64, now: Moment) -> NewReceipt {
    let [a, b, c, d, e, f, g, h] = id.to_be_bytes();
    NewReceipt {
        tenant: "ten_0198c0ffee0000000000000000000001".into(),
        dispatch: format!("{a:02x}{b:02x}{c:02x}{d:02x}-{e:02x}{f:02x}-4{g:02x}0-8000-{h:02x}{number:010x}")
            .into(),
        digest: [a, b, c, d, e, f, g, h, h, g, f, e, d, c, b, a],
        connector: "relay".to_owned(),
        agent: "heron".to_owned(),
        instance: Some(instance.clone()),
        chat: Some("post-bench".into()),
        session: Some("bench".to_owned()),
        verb: DispatchVerb::Deliver,
        sender: "tenant:ten_0198c0ffee0000000000000000000001".into(),
        sent_by: None,
        sent_at: now,
        accepted: now,
        skipped: false,
        open: Opening::Entry,
    }
}

/// User and system time of this process.
fn cpu_ticks() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name is in parentheses and may contain anything; the numbers come after it.
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = numbers.split_whitespace().skip(11);
    let (user, system) = (fields.next().unwrap_or("0"), fields.next().unwrap_or("0"));
    Ok(user.parse::<u64>()? + system.parse::<u64>()?)
}
