//! Getting an agent's attention, and saying honestly whether we got it.

use posthouse_time::Moment;
use posthouse_wire::delivery::{WakeOpts, When};

use crate::deliver::{checked_id, with_failures};
use crate::exchange::{check_text, unknown};
use crate::item::{Item, Sending};
use crate::wish::{Dispatched, Handed, LONGEST_WAIT, Wake, Woken};
use crate::{Caller, Post, Refused};

/// How far ahead a wake may be scheduled: a year.
const FURTHEST: std::time::Duration = std::time::Duration::from_secs(366 * 24 * 3600);

impl Post {
    pub async fn wake(&self, by: &Caller, wish: Wake) -> Result<Woken, Refused> {
        let Wake { agent, context, when, session_id, connectors, from, dispatch_id, wait } = wish;
        check_text("context", context.as_deref().unwrap_or_default())?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(dispatch_id, now)?;
        let ways = self.find(by, &agent, true, connectors.as_deref()).await?;
        if ways.is_empty() {
            return Err(Refused::Failed(unknown(&agent)));
        }
        let sending = Sending::by(by, from, dispatch.clone(), now);
        let context = context.filter(|context| !context.is_empty());
        let session_id = session_id.filter(|session| !session.is_empty());
        let item = Item::Wake { opts: WakeOpts { context, when, session_id }, from: sending.from.clone() };
        let dispatched = match due(when, now)? {
            None => {
                let wait = wait.map(|wait| wait.min(LONGEST_WAIT));
                self.dispatch(&ways, &sending, &item, wait).await?
            }
            Some(at) => {
                let mut dispatched = Vec::with_capacity(ways.len());
                for way in &ways {
                    let outcome = self.hold_back(way, &sending, &item, at).await;
                    if let Err(Refused::Fault(fault)) = &outcome {
                        tracing::error!(%fault, connector = way.name(), "could not schedule by one way");
                    }
                    let connector = way.name().to_owned();
                    dispatched.push(Dispatched { connector, outcome, wakes: true });
                }
                dispatched
            }
        };
        // Woken if any connector woke it; otherwise the first that took it speaks for all.
        let took = || {
            dispatched.iter().filter_map(|one| match &one.outcome {
                Ok(Handed::Woken(receipt)) => Some(receipt),
                _ => None,
            })
        };
        let best = took().find(|receipt| receipt.woken).or_else(|| took().next()).cloned();
        let receipt = with_failures(&dispatched, best, |receipt| &mut receipt.warnings)?;
        Ok(Woken { dispatch_id: dispatch, receipt, dispatched })
    }
}

/// When it is to be made, if that is later than now.
fn due(when: When, now: Moment) -> Result<Option<Moment>, Refused> {
    let When::At(ms) = when else { return Ok(None) };
    let at = Moment::from_millis(ms);
    if at > now + FURTHEST {
        return Err(Refused::malformed("when", "lies more than a year ahead"));
    }
    Ok(Some(at).filter(|at| *at > now))
}
