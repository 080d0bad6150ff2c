//! `wake`: interrupt an agent now or at a given time, and report whether it was woken.

use posthouse_time::Moment;
use posthouse_wire::delivery::{WakeOpts, When};

use crate::deliver::{checked_id, with_failures};
use crate::exchange::{check_text, unknown};
use crate::item::{Item, Sending};
use crate::requests::{Dispatched, Handed, LONGEST_WAIT, Wake, Woken};
use crate::{Caller, Post, Refused};

/// The longest time ahead that a wake may be scheduled: a year.
const FURTHEST: std::time::Duration = std::time::Duration::from_secs(366 * 24 * 3600);

impl Post {
    pub async fn wake(&self, by: &Caller, request: Wake) -> Result<Woken, Refused> {
        let Wake { agent, context, when, session_id, connectors, from, dispatch_id, wait } = request;
        check_text("context", context.as_deref().unwrap_or_default())?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(dispatch_id, now)?;
        let paths = self.find(by, &agent, true, connectors.as_deref()).await?;
        if paths.is_empty() {
            return Err(Refused::Failed(unknown(&agent)));
        }
        let sending = Sending::by(by, from, dispatch.clone(), now);
        let context = context.filter(|context| !context.is_empty());
        let session_id = session_id.filter(|session| !session.is_empty());
        let item = Item::Wake { opts: WakeOpts { context, when, session_id }, from: sending.from.clone() };
        let dispatched = match due(when, now)? {
            None => {
                let wait = wait.map(|wait| wait.min(LONGEST_WAIT));
                self.dispatch(&paths, &sending, &item, wait).await?
            }
            Some(at) => {
                let mut dispatched = Vec::with_capacity(paths.len());
                for path in &paths {
                    let outcome = self.hold_back(path, &sending, &item, at).await;
                    if let Err(Refused::Fault(fault)) = &outcome {
                        tracing::error!(%fault, connector = path.name(), "could not schedule a wake by one of its connectors");
                    }
                    let connector = path.name().to_owned();
                    dispatched.push(Dispatched { connector, outcome, wakes: true });
                }
                dispatched
            }
        };
        // The receipt of a connector that woke the agent, otherwise the first receipt.
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

/// The time of a scheduled wake. `None` if it is due now.
fn due(when: When, now: Moment) -> Result<Option<Moment>, Refused> {
    let When::At(ms) = when else { return Ok(None) };
    let at = Moment::from_millis(ms);
    if at > now + FURTHEST {
        return Err(Refused::malformed("when", "must be at most a year ahead"));
    }
    Ok(Some(at).filter(|at| *at > now))
}
