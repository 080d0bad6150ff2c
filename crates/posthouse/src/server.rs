//! HTTP listener: accepting, TLS, connection limits and timeouts.

mod connection_limits;
mod open_files;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use errand::Cidr;
use http::HeaderMap;
use http::header::UPGRADE;
use http_kit::ClientAddress;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use posthouse_time::Timepiece;
use relay::{EarlyClose, EarlyCloseStream, MessageMeter};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::connection_limits::{ConnectionLimits, OpenConnections, PeerConnection};
use self::open_files::SpareFiles;
pub use self::open_files::{connections_within, raise_limit};
use self::stream::PeerStream;
pub use self::stream::{Timer, timer};
use crate::doors::Doors;

/// Settings of the listener.
#[derive(Clone)]
pub struct Settings {
    pub max_connections: usize,
    /// Additional connections for health and administration, and for 503 answers.
    pub reserved_connections: usize,
    /// Connections of one address before authentication.
    pub max_connections_per_address: usize,
    /// Connections of one credential, bot or agent.
    pub max_connections_per_principal: usize,
    /// For the TLS handshake, for the head of each request, and for the pause between two requests.
    pub header_timeout: Duration,
    /// For a write that makes no progress.
    pub write_timeout: Duration,
    pub timepiece: Timepiece,
    pub trusted_proxies: Vec<Cidr>,
    pub tls: Option<TlsAcceptor>,
}

/// How long running requests may take to finish when the server shuts down.
const GRACE: Duration = Duration::from_secs(3);
/// Most bytes read ahead on one connection, and therefore the longest head of a request.
const READ_BUFFER: usize = 64 * 1024;
/// A shorter timeout for the head of a request on a reserved connection.
const RESERVED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before the next accept if not even a spare file helped.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two log lines about failing accepts.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Serves `doors` until `stop`, then lets running requests finish.
pub async fn serve(listener: TcpListener, doors: Doors, settings: Settings, stop: CancellationToken) {
    let acceptor = Acceptor::new(settings);
    let under_way = TaskTracker::new();
    let (mut spare, mut complained) = (SpareFiles::new(), None);
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    let now = acceptor.settings.timepiece.instant();
                    if complained.is_none_or(|last| now.since(last) >= COMPLAIN_EVERY) {
                        tracing::warn!(%error, "cannot accept a connection");
                        complained = Some(now);
                    }
                    let waits = SpareFiles::is_needed(&error);
                    if !(waits && spare.close_one_pending(&listener).await) {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                    continue;
                }
            },
        };
        // Not even the reserve has room: close the connection at once, before it costs anything.
        let Some(guest) = acceptor.admit(peer, &stop) else { continue };
        let _ = stream.set_nodelay(true);
        let (doors, http) = (doors.clone(), acceptor.http(&guest).clone());
        under_way.spawn(async move {
            match guest.settings.tls.clone() {
                None => guest.serve(stream, doors, &http).await,
                Some(tls) => {
                    let handshake = tokio::time::timeout(guest.header_timeout(), tls.accept(stream));
                    if let Ok(Ok(stream)) = handshake.await {
                        guest.serve(stream, doors, &http).await;
                    }
                }
            }
        });
    }
    drop(listener);
    under_way.close();
    let _ = tokio::time::timeout(GRACE, under_way.wait()).await;
}

/// Admission of connections.
struct Acceptor {
    settings: Arc<Settings>,
    connections: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    /// Connections in the reserve.
    reserved: Arc<OpenConnections>,
    http: Builder,
    reserved_http: Builder,
}

impl Acceptor {
    fn new(settings: Settings) -> Self {
        let Settings { max_connections, reserved_connections, .. } = settings;
        let limits = ConnectionLimits::of(
            max_connections,
            settings.max_connections_per_address,
            settings.max_connections_per_principal,
        );
        let reserved = ConnectionLimits {
            per_address: reserved_connections.div_ceil(4),
            per_principal: reserved_connections,
            per_tenant: reserved_connections,
        };
        // HTTP/1.1 only. A server that also speaks HTTP/2 waits for the first bytes of a connection without
        // a timeout, and has none for an idle one: a stranger could hold every connection for ever.
        let mut http = Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(settings.header_timeout).max_buf_size(READ_BUFFER);
        let mut reserved_http = http.clone();
        reserved_http
            .header_read_timeout(settings.header_timeout.min(RESERVED_HEADER_TIMEOUT))
            .keep_alive(false);
        Self {
            connections: Arc::new(Semaphore::new(max_connections)),
            reserve: Arc::new(Semaphore::new(reserved_connections)),
            open: OpenConnections::new(limits),
            reserved: OpenConnections::new(reserved),
            settings: Arc::new(settings),
            http,
            reserved_http,
        }
    }

    /// A place among all connections, otherwise one in the reserve, otherwise none.
    fn admit(&self, peer: SocketAddr, stop: &CancellationToken) -> Option<AdmittedConnection> {
        let is_proxy = self.settings.trusted_proxies.iter().any(|cidr| cidr.contains(peer.ip()));
        let guest = |place: OwnedSemaphorePermit, connection| AdmittedConnection {
            peer,
            place,
            connection,
            settings: Arc::clone(&self.settings),
            stop: stop.clone(),
        };
        if let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() {
            let connection = PeerConnection::new(&self.open, false, is_proxy);
            if is_proxy || connection.counts_against(peer.ip()) {
                return Some(guest(place, connection));
            }
        }
        let place = Arc::clone(&self.reserve).try_acquire_owned().ok()?;
        let connection = PeerConnection::new(&self.reserved, true, is_proxy);
        (is_proxy || connection.counts_against(peer.ip())).then(|| guest(place, connection))
    }

    fn http(&self, guest: &AdmittedConnection) -> &Builder {
        if guest.connection.is_at_capacity() { &self.reserved_http } else { &self.http }
    }
}

/// An admitted connection.
struct AdmittedConnection {
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
    connection: Arc<PeerConnection>,
    settings: Arc<Settings>,
    stop: CancellationToken,
}

impl AdmittedConnection {
    /// Timeout for the head of a request; shorter in the reserve.
    fn header_timeout(&self) -> Duration {
        let timeout = self.settings.header_timeout;
        if self.connection.is_at_capacity() { timeout.min(RESERVED_HEADER_TIMEOUT) } else { timeout }
    }

    async fn serve<S>(self, stream: S, doors: Doors, http: &Builder)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let AdmittedConnection { peer, place, connection, settings, stop } = self;
        let early_close = EarlyClose::default();
        let meter = MessageMeter::default();
        let stream =
            PeerStream::new(stream, settings.timepiece.clone(), settings.write_timeout, meter.clone());
        // A WebSocket outlives the request that opened it, and keeps its place until it closes.
        let stream = EarlyCloseStream::new(stream, early_close.clone(), (place, Arc::clone(&connection)));
        let service = service_fn(move |mut request| {
            let address = caller(peer.ip(), request.headers(), &settings.trusted_proxies);
            request.extensions_mut().insert(ClientAddress(address));
            request.extensions_mut().insert(early_close.clone());
            if request.headers().contains_key(UPGRADE) {
                request.extensions_mut().insert(meter.clone());
            }
            doors.clone().answer(request, address, Arc::clone(&connection))
        });
        let serving = http.serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving.with_upgrades());
        // A connection that the peer broke is not an error of ours.
        tokio::select! {
            _ = serving.as_mut() => return,
            () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        let _ = serving.await;
    }
}

/// Address of the client: the peer, or the client that a trusted proxy names. The header is read from its
/// end, so that a client cannot put an address in front of the one that our own proxy wrote.
fn caller(peer: IpAddr, headers: &HeaderMap, trusted: &[Cidr]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|cidr| cidr.contains(address));
    if !is_trusted(peer) {
        return peer;
    }
    let mut caller = peer;
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    for hop in forwarded.into_iter().rev() {
        let Ok(address) = hop.trim().parse::<IpAddr>() else { return caller };
        caller = address;
        if !is_trusted(address) {
            break;
        }
    }
    caller
}

/// Reads certificate and key from PEM files.
pub fn tls(cert: &std::path::Path, key: &std::path::Path) -> anyhow::Result<TlsAcceptor> {
    use anyhow::Context;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificate {}", cert.display()))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read the private key {}", key.display()))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its private key do not match")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(caller_says: &str, peer: &str, trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", caller_says.parse().unwrap());
        let trusted: Vec<Cidr> = trusted.iter().map(|cidr| cidr.parse().unwrap()).collect();
        caller(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_may_say_whom_it_calls_for() {
        assert_eq!(said("1.2.3.4", "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(said("1.2.3.4", "10.0.0.1", &["10.0.0.0/8"]), "1.2.3.4");
        assert_eq!(said("6.6.6.6, 1.2.3.4, 10.0.0.2", "10.0.0.1", &["10.0.0.0/8"]), "1.2.3.4");
        assert_eq!(said("nonsense", "10.0.0.1", &["10.0.0.0/8"]), "10.0.0.1");
    }
}
