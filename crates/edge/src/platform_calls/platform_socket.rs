//! WebSockets to platforms, opened with the same HTTP client as calls.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, StatusCode};
use posthouse_time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::{CallFailure, CallRefusal, PlatformClient, RefusalKind, transport_failure};

/// Time limit for opening a socket, and for writing a frame.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A frame from the platform. Pings are not reported: the socket answers them itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketFrame {
    Text(String),
    Binary(Bytes),
    /// The socket ended, with the platform's code if it sent one. Nothing follows.
    Closed(Option<u16>),
}

/// An open WebSocket to a platform.
pub struct PlatformSocket {
    stream: WebSocketStream<reqwest::Upgraded>,
    timepiece: posthouse_time::Timepiece,
    /// When the last frame came, pings included.
    heard: Instant,
}

impl PlatformClient {
    /// Opens a WebSocket at a `ws://` or `wss://` URL. Frames of more than `largest` bytes end it. The URL is never
    /// printed, because it may be a credential.
    pub async fn open_socket(&self, url: &str, largest: usize) -> Result<PlatformSocket, CallFailure> {
        self.open_socket_or(url, largest, |_| None).await
    }

    /// As [`PlatformClient::open_socket`], for platforms that say in the headers of a refused handshake why they refuse.
    pub async fn open_socket_or(
        &self,
        url: &str,
        largest: usize,
        refusal: impl FnOnce(&HeaderMap) -> Option<CallRefusal>,
    ) -> Result<PlatformSocket, CallFailure> {
        let address = match url.split_once("://") {
            Some(("wss", rest)) => format!("https://{rest}"),
            Some(("ws", rest)) => format!("http://{rest}"),
            _ => return Err(CallFailure::Unreached("the address of the socket is not valid".to_owned())),
        };
        let key = generate_key();
        let request = self
            .http()?
            .get(address)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let opening = async {
            let response = request.send().await.map_err(transport_failure)?;
            let status = response.status();
            if status != StatusCode::SWITCHING_PROTOCOLS {
                let unsaid = || {
                    let kind = RefusalKind::of_status(status.as_u16());
                    CallRefusal::new(kind, status.as_u16().into(), String::new())
                };
                return Err(CallFailure::Refused(refusal(response.headers()).unwrap_or_else(unsaid)));
            }
            let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
            if accepted
                .is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
            {
                return Err(CallFailure::Unreached("the answer to the handshake is wrong".to_owned()));
            }
            response.upgrade().await.map_err(transport_failure)
        };
        let upgraded = self.timepiece.within(TIME_LIMIT, opening).await.unwrap_or(Err(CallFailure::Lost))?;
        let config = WebSocketConfig::default().max_message_size(Some(largest)).max_frame_size(Some(largest));
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(PlatformSocket { stream, timepiece: self.timepiece.clone(), heard: self.timepiece.instant() })
    }
}

impl PlatformSocket {
    /// The next frame. It is cancel-safe.
    pub async fn next(&mut self) -> SocketFrame {
        loop {
            let frame = self.stream.next().await;
            self.heard = self.timepiece.instant();
            match frame {
                Some(Ok(Message::Text(text))) => return SocketFrame::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => return SocketFrame::Binary(bytes),
                Some(Ok(Message::Close(frame))) => {
                    return SocketFrame::Closed(frame.map(|frame| frame.code.into()));
                }
                // The library answers pings with the next read or write.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(_)) | None => return SocketFrame::Closed(None),
            }
        }
    }

    /// Sends a text frame. False if the socket is broken.
    pub async fn send_text(&mut self, text: String) -> bool {
        self.send(Message::text(text)).await
    }

    /// Sends a binary frame. False if the socket is broken.
    pub async fn send_binary(&mut self, bytes: Bytes) -> bool {
        self.send(Message::Binary(bytes)).await
    }

    /// Asks the platform for a sign of life. False if the socket is broken.
    pub async fn ping(&mut self) -> bool {
        self.send(Message::Ping(Bytes::new())).await
    }

    /// The time since the last frame of any kind.
    pub fn quiet_for(&self) -> Duration {
        self.timepiece.instant().since(self.heard)
    }

    async fn send(&mut self, message: Message) -> bool {
        matches!(self.timepiece.within(TIME_LIMIT, self.stream.send(message)).await, Ok(Ok(())))
    }

    /// Closes the socket with a code. A failure has no consequences.
    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        let _ = self.timepiece.within(TIME_LIMIT, self.stream.close(Some(frame))).await;
    }
}
