//! Reading from a peer: messages from the stream, lines from messages, under the agent's rate limit.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use posthouse_time::Instant;
use posthouse_wire::frame::UnreadableFrame;
use posthouse_wire::{FromGateway, Outcome, ToGateway};

use super::writing::broken;
use super::{Close, Ending, Gone, Message, Received, Socket};
use crate::long_lines::LONG;

/// The longest line accepted from an agent.
pub(super) const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// Messages read in a row before other work gets a turn.
const PACK: usize = 64;
/// Lines of one message processed in a row before other work gets a turn.
const LINES: usize = 64;
/// Limit of bytes read ahead behind an unprocessed message. Reading ahead is needed to notice that the peer has
/// disconnected.
const READ_AHEAD: usize = 1024 * 1024;

/// Data that was read and is not processed yet. It is boxed and optional, so that an idle socket uses less memory.
pub(super) struct Backlog {
    /// The rest of a message with many lines.
    rest: Bytes,
    /// Data that arrived after it.
    behind: BytesMut,
}

impl Backlog {
    fn len(&self) -> usize {
        self.rest.len() + self.behind.len()
    }
}

impl Socket {
    /// Whether the stream may be read now.
    pub(super) fn reads(&self, now: Instant) -> bool {
        !self.has_read_ahead() && self.reads_from <= now
    }

    /// Whether the limit of data read ahead is reached.
    pub(super) fn has_read_ahead(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.behind.len() >= READ_AHEAD)
    }

    /// Processes the received message and further ones that have already arrived. Acknowledgements come in bursts,
    /// and the work that follows is done once per burst.
    pub(super) async fn messages(&mut self, received: Received) -> Result<(), Ending> {
        self.message(received).await?;
        for count in 1.. {
            if !self.reads(self.heard) {
                break;
            }
            if count == PACK {
                tokio::task::yield_now().await;
                break;
            }
            let Some(received) = self.stream.recv().now_or_never() else { break };
            self.message(received).await?;
        }
        self.weigh();
        Ok(())
    }

    /// Reports the bytes of unprocessed messages to the meter.
    fn weigh(&self) {
        self.meter.holds(self.lines.begun() + self.backlog.as_ref().map_or(0, |backlog| backlog.len()));
    }

    async fn message(&mut self, received: Received) -> Result<(), Ending> {
        self.heard = self.now();
        let bytes: Bytes = match received.ok_or(Gone)?.map_err(broken)? {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
            Message::Ping(payload) => {
                self.took_control(&payload);
                return Ok(());
            }
            Message::Pong(payload) => {
                self.took_control(&payload);
                return self.ponged(&payload).await;
            }
            Message::Close(_) => return Err(Gone),
        };
        self.meter.took_message();
        match &mut self.backlog {
            Some(backlog) => backlog.behind.extend_from_slice(&bytes),
            None if bytes.is_empty() => {}
            none => {
                *none = Some(Box::new(Backlog { rest: bytes, behind: BytesMut::new() }));
                return self.read_lines().await;
            }
        }
        self.pay_for_message();
        Ok(())
    }

    fn took_control(&mut self, payload: &[u8]) {
        self.meter.took_control(payload.len());
        self.pay_for_message();
    }

    /// Charges the rate limit for a message whose lines are not charged when processed: the cost of one frame.
    fn pay_for_message(&mut self) {
        if let Some(until) = self.connections.frame_rate_limit.lock().count_message(self.heard) {
            self.reads_from = until;
        }
    }

    /// Time at which processing of the backlog continues.
    pub(super) fn goes_on(&self) -> Instant {
        let now = self.now();
        self.connections.frame_rate_limit.lock().waits_until(now).unwrap_or(now)
    }

    /// Continues with a message of many lines, after other tasks had a turn.
    pub(super) async fn work_on(&mut self) -> Result<(), Ending> {
        tokio::task::yield_now().await;
        self.read_lines().await?;
        self.weigh();
        Ok(())
    }

    /// The next line of the backlog, or the incomplete line at its end.
    fn next_piece(&mut self) -> Option<Bytes> {
        let backlog = self.backlog.as_mut()?;
        let rest = &mut backlog.rest;
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let piece = rest.split_to(end);
        if rest.is_empty() {
            *rest = std::mem::take(&mut backlog.behind).freeze();
        }
        if backlog.rest.is_empty() {
            self.backlog = None;
        }
        Some(piece)
    }

    /// Processes some lines of the backlog, one at a time: a message of a million tiny lines must not become a
    /// million frames in memory.
    async fn read_lines(&mut self) -> Result<(), Ending> {
        let now = self.now();
        if self.connections.frame_rate_limit.lock().waits_until(now).is_some() {
            return Ok(());
        }
        for _ in 0..LINES {
            let Some(piece) = self.next_piece() else { break };
            let (mut frame, mut weight, mut long) = (Err(UnreadableFrame::Ignored), 0, None);
            let take = |line: &[u8]| {
                weight = line.len();
                match weight {
                    0..=LONG => frame = FromGateway::read(line),
                    _ => long = Some(line.to_vec()),
                }
            };
            self.lines.push(&piece, take).map_err(|_| Close { code: 1009, reason: "line too long" })?;
            if let Some(line) = long {
                frame = self.components.long_lines.parse(line).await;
            }
            // An incomplete line that continues in the next message does not count as junk.
            let goes_on = self.connections.frame_rate_limit.lock().count(
                piece.len(),
                frame.is_ok() || weight == 0,
                now,
            );
            match frame {
                Ok(frame) => self.frame(frame, weight).await?,
                Err(UnreadableFrame::Answerable { request_id }) => {
                    let result = Outcome::failed("malformed request: the action is missing or unreadable");
                    self.send(&ToGateway::OutboundResult { request_id, result }.line()).await?;
                }
                // Unknown types and noise are ignored and the socket stays (contract section 5).
                Err(UnreadableFrame::Ignored) => {}
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}
