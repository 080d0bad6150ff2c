//! Refusal of an agent: a WebSocket close frame sent in the same write as the upgrade response.
//!
//! A stock agent must see its refusal before it sends its hello. If the close comes later, the agent takes the
//! connection for a success, waits half a minute for a descriptor and reconnects every second, for ever (contract
//! section 3.2). The upgrade response and the close after it are normally two writes, which may arrive separately. So
//! the close frame is deposited here, and the stream below appends it to the response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes to send directly after the next response of one connection. The server adds one to every request.
#[derive(Clone, Default)]
pub struct EarlyClose(Arc<OnceLock<Bytes>>);

impl EarlyClose {
    /// Deposits the close frame for a WebSocket upgrade that is about to be accepted.
    pub(crate) fn close(&self, code: u16, reason: &'static str) {
        let length = u8::try_from(2 + reason.len()).expect("close reasons are short constants of this crate");
        let mut frame = vec![0x88, length];
        frame.extend(code.to_be_bytes());
        frame.extend(reason.as_bytes());
        let _ = self.0.set(frame.into());
    }
}

/// A connection that appends the deposited bytes to its next write.
pub struct EarlyCloseStream<S> {
    stream: S,
    early_close: EarlyClose,
    is_appended: bool,
    /// The response and the appended bytes, until they are written.
    unsent: BytesMut,
    _held: Box<dyn Send + Sync>,
}

impl<S: AsyncWrite + Unpin> EarlyCloseStream<S> {
    /// `held` is dropped with the connection, upgraded or not.
    pub fn new(stream: S, early_close: EarlyClose, held: impl Send + Sync + 'static) -> Self {
        Self { stream, early_close, is_appended: false, unsent: BytesMut::new(), _held: Box::new(held) }
    }

    /// Buffers the whole response, if there are bytes to append to it.
    fn take(&mut self, answer: &[IoSlice<'_>]) -> Option<usize> {
        if self.is_appended {
            return None;
        }
        let early_close = self.early_close.0.get()?;
        self.is_appended = true;
        answer.iter().for_each(|piece| self.unsent.extend_from_slice(piece));
        let taken = self.unsent.len();
        self.unsent.extend_from_slice(early_close);
        Some(taken)
    }

    fn poll_append(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
        write_as_is: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(context))?;
        let Some(taken) = self.take(pieces) else { return write_as_is(Pin::new(&mut self.stream), context) };
        // The rest is written by the flush.
        match self.poll_unsent(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EarlyCloseStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_append(context, &[IoSlice::new(piece)], |stream, context| stream.poll_write(context, piece))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_append(context, pieces, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for EarlyCloseStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Every write as the peer's network would see it, at most so many bytes each.
    struct Wire {
        writes: Vec<Vec<u8>>,
        at_most: usize,
    }

    impl AsyncWrite for Wire {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            piece: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = piece.len().min(self.at_most);
            self.writes.push(piece[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn written(at_most: usize) -> Vec<Vec<u8>> {
        let early_close = EarlyClose::default();
        let mut stream = EarlyCloseStream::new(Wire { writes: Vec::new(), at_most }, early_close.clone(), ());
        stream.write_all(b"before ").await.unwrap();
        early_close.close(4401, "expired");
        stream.write_all(b"answer ").await.unwrap();
        stream.write_all(b"after").await.unwrap();
        stream.flush().await.unwrap();
        stream.stream.writes
    }

    #[tokio::test]
    async fn the_close_is_in_the_same_write_as_the_answer_before_it_and_sent_once() {
        let close = b"\x88\x09\x11\x31expired";
        let whole = [b"answer ".as_slice(), close].concat();
        assert_eq!(written(usize::MAX).await, [b"before ".to_vec(), whole.clone(), b"after".to_vec()]);
        let expected = [b"before ".as_slice(), &whole, b"after"].concat();
        assert_eq!(written(3).await.concat(), expected);
    }

    #[tokio::test]
    async fn a_connection_without_an_early_close_is_left_alone() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = EarlyCloseStream::new(near, EarlyClose::default(), ());
        stream.write_all(b"answer").await.unwrap();
        drop(stream);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer");
    }
}
