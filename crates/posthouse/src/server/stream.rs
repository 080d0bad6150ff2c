//! Byte stream of a peer with two rules that hyper lacks: a write timeout, and a lingering close, so that a
//! peer that is still sending gets the answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use posthouse_time::Timepiece;
use relay::MessageMeter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a peer may go on sending after the last answer, before the connection is closed.
const LINGER: Duration = Duration::from_secs(2);
/// How many bytes of that are read and discarded.
const LINGER_BYTES: usize = 16 << 20;

/// A timer that a hand-written `poll` can hold.
pub type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

pub fn timer(timepiece: &Timepiece, pause: Duration) -> Timer {
    let timepiece = timepiece.clone();
    Box::pin(async move { timepiece.after(pause).await })
}

/// Fails if a write makes no progress for too long; keeps reading for a moment after the last answer.
///
/// Closing a TCP connection with unread bytes sends a reset, and a peer that is still sending then loses
/// the answer. A lingering close, as web servers call it, prevents that.
pub struct PeerStream<S> {
    stream: S,
    timepiece: Timepiece,
    write_timeout: Duration,
    /// None while writes make progress.
    stalled: Option<Timer>,
    closing: Option<LingeringClose>,
    meter: MessageMeter,
}

/// State after our side of the stream was closed.
struct LingeringClose {
    until: Timer,
    discarded: usize,
}

impl<S> PeerStream<S> {
    /// `meter` counts the bytes that are read.
    pub fn new(stream: S, timepiece: Timepiece, write_timeout: Duration, meter: MessageMeter) -> Self {
        Self { stream, timepiece, write_timeout, stalled: None, closing: None, meter }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> PeerStream<S> {
    /// Passes the result of a write on, and fails if it has been pending for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| timer(&self.timepiece, self.write_timeout));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }

    /// Discards what the peer still sends, until its end or the limits of the lingering close.
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let closing = self
            .closing
            .get_or_insert_with(|| LingeringClose { until: timer(&self.timepiece, LINGER), discarded: 0 });
        let mut waste = [0; 4096];
        while closing.discarded < LINGER_BYTES {
            let mut piece = ReadBuf::new(&mut waste);
            match Pin::new(&mut self.stream).poll_read(context, &mut piece) {
                Poll::Ready(Ok(())) if !piece.filled().is_empty() => {
                    closing.discarded += piece.filled().len()
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return closing.until.as_mut().poll(context),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PeerStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, piece);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            let shut = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.watch(context, shut))?;
        }
        self.linger(context).map(Ok)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeerStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        if self.meter.read(into.filled().len() - before) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(io::Error::other("the agent has too many bytes of unfinished messages")))
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    fn pair() -> (PeerStream<DuplexStream>, DuplexStream, Timepiece) {
        let timepiece = Timepiece::wound(Moment::from_seconds(1_000));
        let (near, far) = tokio::io::duplex(16);
        (
            PeerStream::new(near, timepiece.clone(), Duration::from_secs(30), MessageMeter::default()),
            far,
            timepiece,
        )
    }

    /// Runs until all other tasks of this test wait for the clock.
    async fn settled() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_peer_that_sends_and_never_reads_is_given_up() {
        let (mut stream, _far, timepiece) = pair();
        let writing = tokio::spawn(async move { stream.write_all(&[0; 64]).await });
        settled().await;
        timepiece.wind(Duration::from_secs(30));
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_reads_slowly_is_not_given_up() {
        let (mut stream, mut far, timepiece) = pair();
        let writing = tokio::spawn(async move { stream.write_all(&[0; 64]).await });
        for _ in 0..8 {
            settled().await;
            timepiece.wind(Duration::from_secs(20));
            far.read_exact(&mut [0; 8]).await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_is_still_sending_when_we_close_can_finish_and_read_the_answer() {
        let (mut stream, mut far, _timepiece) = pair();
        stream.write_all(b"answer").await.unwrap();
        let closing = tokio::spawn(async move { stream.shutdown().await });
        far.write_all(&[0; 4096]).await.unwrap();
        far.shutdown().await.unwrap();
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer");
        closing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_never_ends_is_closed_in_the_end() {
        let (mut stream, _far, timepiece) = pair();
        let closing = tokio::spawn(async move { stream.shutdown().await });
        settled().await;
        timepiece.wind(LINGER);
        closing.await.unwrap().unwrap();
    }
}
