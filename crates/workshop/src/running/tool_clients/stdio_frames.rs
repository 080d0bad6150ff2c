//! Messages on the pipes of a child process: with a length before each, or one per line.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio::task::spawn_blocking;

use super::LARGEST_MESSAGE;
use super::mcp_message::ServerMessage;
use super::settings::StdioFraming;

/// Longest header before a message.
const LONGEST_HEADER: u64 = 8 * 1024;
const LENGTH: &str = "content-length:";
/// Larger messages are looked at outside of the server's own threads.
const LARGE: usize = 64 * 1024;

/// The bytes of a message.
pub fn written(message: &Value, framing: StdioFraming) -> Vec<u8> {
    let text = message.to_string();
    match framing {
        StdioFraming::Newline => (text + "\n").into_bytes(),
        StdioFraming::Lsp => format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes(),
    }
}

/// The next message. `None` at the end. Lines that are not messages are passed over, because programs print there too.
pub async fn read(
    from: &mut (impl AsyncBufRead + Unpin),
    framing: StdioFraming,
) -> io::Result<Option<ServerMessage>> {
    match framing {
        StdioFraming::Newline => loop {
            let Some(line) = line(from, LARGEST_MESSAGE as u64).await? else { return Ok(None) };
            if let Some(message) = message(line).await {
                return Ok(Some(message));
            }
        },
        StdioFraming::Lsp => {
            let Some(length) = length(from).await? else { return Ok(None) };
            if length > LARGEST_MESSAGE {
                return Err(io::Error::other("a message is too large"));
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).await?;
            message(body).await.map(Some).ok_or_else(|| io::Error::other("a message is not JSON"))
        }
    }
}

async fn message(bytes: Vec<u8>) -> Option<ServerMessage> {
    if bytes.len() < LARGE {
        return ServerMessage::read(&bytes);
    }
    spawn_blocking(move || ServerMessage::read(&bytes)).await.ok().flatten()
}

/// The length in the header of a message.
async fn length(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<usize>> {
    let mut length = None;
    loop {
        let Some(line) = line(from, LONGEST_HEADER).await? else { return Ok(None) };
        let line = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
        if let Some(number) = line.strip_prefix(LENGTH) {
            length = number.trim().parse().ok();
        } else if line.is_empty()
            && let Some(length) = length
        {
            return Ok(Some(length));
        }
    }
}

/// A line without its end. A line that is too long is an error.
async fn line(from: &mut (impl AsyncBufRead + Unpin), limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = from.take(limit + 1).read_until(b'\n', &mut line).await?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 > limit {
        return Err(io::Error::other("a line is too long"));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn both_framings_are_read_as_they_are_written() {
        for framing in [StdioFraming::Lsp, StdioFraming::Newline] {
            let texts = ["ä\n".to_owned(), "x".repeat(2 * LARGE), "z".to_owned()];
            let bytes: Vec<u8> =
                texts.iter().flat_map(|text| written(&json!({ "id": 1, "result": text }), framing)).collect();
            let mut from = bytes.as_slice();
            for text in texts {
                let message = read(&mut from, framing).await.unwrap().unwrap();
                assert_eq!(message.result("x").unwrap().get(), json!(text).to_string());
            }
            assert!(read(&mut from, framing).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn nonsense_is_passed_over_or_refused_and_nothing_is_read_without_a_limit() {
        let mut chatty = b"starting up\n{\"id\":1}\n".as_slice();
        let message = read(&mut chatty, StdioFraming::Newline).await.unwrap().unwrap();
        assert_eq!(message.answered(), Some(1));
        let mut huge = b"Content-Length: 99999999999\r\n\r\n".as_slice();
        assert!(read(&mut huge, StdioFraming::Lsp).await.is_err());
        let mut junk = b"Content-Length: 4\r\n\r\nnope".as_slice();
        assert!(read(&mut junk, StdioFraming::Lsp).await.is_err());
        let endless = vec![b'x'; LARGEST_MESSAGE + 2];
        assert!(read(&mut endless.as_slice(), StdioFraming::Newline).await.is_err());
    }
}
