//! Opening a connection to the server: resolve, connect, TLS for `wss`, upgrade with a fresh token.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri, header};
use posthouse_time::Timepiece;
use posthouse_wire::token;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::Fault;
use super::stream::Stream;
use crate::Settings;

/// Time limit for an upgrade; the contract's client has the same ten seconds (section 4).
const OPEN: Duration = Duration::from_secs(10);
/// Lifetime of an upgrade token (section 3.1).
const TOKEN_SECONDS: i64 = 300;
/// Longest text line, and so the longest message, that is read.
pub(super) const LONGEST_READ: usize = 16 << 20;

/// The server's address, checked once.
pub(super) struct ServerAddress {
    url: Uri,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl ServerAddress {
    pub(super) fn of(settings: &Settings) -> Result<Self, Fault> {
        let dial = settings.addresses().dial;
        let wrong = |why| Fault::Address(dial.clone(), why);
        let url: Uri = dial.parse().map_err(|_| wrong("it is not a URL"))?;
        let secure = match url.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(wrong("it must begin with http, https, ws or wss")),
        };
        let host = url.host().ok_or_else(|| wrong("it has no host name"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = if secure {
            let name = ServerName::try_from(host.clone())
                .map_err(|_| wrong("its host is not a valid TLS server name"))?;
            let config = match &settings.tls {
                Some(config) => config.clone(),
                None => system_trust().map_err(|fault| Fault::Unreachable(fault.to_string()))?,
            };
            Some((TlsConnector::from(config), name))
        } else {
            None
        };
        Ok(Self { url, host, port, tls })
    }

    pub(super) async fn dial(
        &self,
        settings: &Settings,
        timepiece: &Timepiece,
    ) -> Result<WebSocketStream<Stream>, Fault> {
        match tokio::time::timeout(OPEN, self.upgraded(settings, timepiece)).await {
            Ok(opened) => opened,
            Err(_) => Err(Fault::Unreachable(format!("no answer within {} s", OPEN.as_secs()))),
        }
    }

    async fn upgraded(
        &self,
        settings: &Settings,
        timepiece: &Timepiece,
    ) -> Result<WebSocketStream<Stream>, Fault> {
        let unreachable = |fault: &dyn std::fmt::Display| Fault::Unreachable(fault.to_string());
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| unreachable(&e))?;
        // Frames are small, and the other side waits for each of them.
        tcp.set_nodelay(true).map_err(|e| unreachable(&e))?;
        let stream = match &self.tls {
            None => Stream::Plain(tcp),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), tcp).await.map_err(|e| unreachable(&e))?;
                Stream::Tls(Box::new(stream))
            }
        };
        let mut request = self.url.clone().into_client_request().map_err(|e| unreachable(&e))?;
        let now = timepiece.now().seconds();
        let token = token::mint(&settings.gateway, &settings.secret, TOKEN_SECONDS, now);
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|e| unreachable(&e))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
        let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(buffers()))
            .await
            .map_err(|e| unreachable(&e))?;
        Ok(socket)
    }
}

/// Smaller buffers: the default read buffer alone would cost 128 KiB for every agent, idle or not.
fn buffers() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(8 << 10)
        .write_buffer_size(32 << 10)
        .max_write_buffer_size(8 << 20)
        .max_message_size(Some(LONGEST_READ))
        .max_frame_size(Some(LONGEST_READ))
}

/// TLS configuration with the machine's trusted certificates. It names the crypto provider, because feature
/// unification may leave two.
fn system_trust() -> Result<Arc<rustls::ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(Arc::new(config))
}
