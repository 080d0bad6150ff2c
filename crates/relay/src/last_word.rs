//! A last word that travels with the answer before it.
//!
//! A stock agent must learn of its refusal before its hello is out; if the close comes any later, it takes
//! the dial for a success, waits half a minute for a descriptor and redials every second, for ever
//! (contract section 3.2). The answer to an upgrade and the close behind it are two writes, and whether
//! they arrive as one is chance. So the close is left here, and the stream beneath adds it to the answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is to follow the next answer of one connection without a gap; the house puts it on every request.
#[derive(Clone, Default)]
pub struct LastWord(Arc<OnceLock<Bytes>>);

impl LastWord {
    /// Leaves the close of a WebSocket that is about to be accepted.
    pub(crate) fn close(&self, code: u16, reason: &'static str) {
        let length = u8::try_from(2 + reason.len()).expect("reasons are short words of ours");
        let mut frame = vec![0x88, length];
        frame.extend(code.to_be_bytes());
        frame.extend(reason.as_bytes());
        let _ = self.0.set(frame.into());
    }
}

/// A connection that adds its last word to the write after it was left.
pub struct Speaking<S> {
    stream: S,
    word: LastWord,
    said: bool,
    /// The answer and the word behind it, until the peer has taken them.
    unsent: BytesMut,
    _held: Box<dyn Send + Sync>,
}

impl<S: AsyncWrite + Unpin> Speaking<S> {
    /// What is `held` is let go with the connection, upgraded or not.
    pub fn new(stream: S, word: LastWord, held: impl Send + Sync + 'static) -> Self {
        Self { stream, word, said: false, unsent: BytesMut::new(), _held: Box::new(held) }
    }

    /// Takes the whole answer, if there is a word to say after it.
    fn take(&mut self, answer: &[IoSlice<'_>]) -> Option<usize> {
        if self.said {
            return None;
        }
        let word = self.word.0.get()?;
        self.said = true;
        answer.iter().for_each(|piece| self.unsent.extend_from_slice(piece));
        let taken = self.unsent.len();
        self.unsent.extend_from_slice(word);
        Some(taken)
    }

    fn poll_say(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
        plainly: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(context))?;
        let Some(taken) = self.take(pieces) else { return plainly(Pin::new(&mut self.stream), context) };
        // What does not leave now leaves with the flush.
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Speaking<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_say(context, &[IoSlice::new(piece)], |stream, context| stream.poll_write(context, piece))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_say(context, pieces, |stream, context| stream.poll_write_vectored(context, pieces))
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

impl<S: AsyncRead + Unpin> AsyncRead for Speaking<S> {
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
        let word = LastWord::default();
        let mut stream = Speaking::new(Wire { writes: Vec::new(), at_most }, word.clone(), ());
        stream.write_all(b"before ").await.unwrap();
        word.close(4401, "expired");
        stream.write_all(b"answer ").await.unwrap();
        stream.write_all(b"after").await.unwrap();
        stream.flush().await.unwrap();
        stream.stream.writes
    }

    #[tokio::test]
    async fn the_close_is_in_the_same_write_as_the_answer_before_it_and_said_once() {
        let close = b"\x88\x09\x11\x31expired";
        let whole = [b"answer ".as_slice(), close].concat();
        assert_eq!(written(usize::MAX).await, [b"before ".to_vec(), whole.clone(), b"after".to_vec()]);
        let expected = [b"before ".as_slice(), &whole, b"after"].concat();
        assert_eq!(written(3).await.concat(), expected);
    }

    #[tokio::test]
    async fn a_connection_without_a_last_word_is_left_alone() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = Speaking::new(near, LastWord::default(), ());
        stream.write_all(b"answer").await.unwrap();
        drop(stream);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer");
    }
}
