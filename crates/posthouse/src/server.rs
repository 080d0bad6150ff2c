//! The listener: who may connect, how slowly, and how many.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use errand::Cidr;
use http::HeaderMap;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use relay::{Caller, LastWord, Speaking};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::doors::Doors;

/// How a listener behaves.
#[derive(Clone)]
pub struct Settings {
    pub max_connections: usize,
    /// For the TLS handshake, and for the headers of each request.
    pub header_timeout: Duration,
    pub trusted_proxies: Vec<Cidr>,
    pub tls: Option<TlsAcceptor>,
}

/// How long requests under way have to finish once the house closes.
const GRACE: Duration = Duration::from_secs(3);

/// Serves `doors` until `stop`, then lets requests under way finish.
pub async fn serve(listener: TcpListener, doors: Doors, settings: Settings, stop: CancellationToken) {
    let connections = Arc::new(Semaphore::new(settings.max_connections));
    // HTTP/1.1 alone. Whoever also takes HTTP/2 waits for a connection's first bytes without limit, and
    // an idle one has none either: a stranger could hold every place for ever.
    let mut http = Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    let under_way = TaskTracker::new();
    let settings = Arc::new(settings);
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: give others time to close.
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // More than allowed: closed at once, before it costs anything.
        let Ok(place) = Arc::clone(&connections).try_acquire_owned() else { continue };
        let _ = stream.set_nodelay(true);
        let guest = Guest { peer, place, settings: Arc::clone(&settings), stop: stop.clone() };
        let (doors, http) = (doors.clone(), http.clone());
        under_way.spawn(async move {
            match guest.settings.tls.clone() {
                None => guest.serve(stream, doors, &http).await,
                Some(tls) => {
                    let handshake = tokio::time::timeout(guest.settings.header_timeout, tls.accept(stream));
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

/// Somebody who was let in.
struct Guest {
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
    settings: Arc<Settings>,
    stop: CancellationToken,
}

impl Guest {
    async fn serve<S>(self, stream: S, doors: Doors, http: &Builder)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Guest { peer, place, settings, stop } = self;
        let last_word = LastWord::default();
        // A socket outlives the request that opened it, and keeps its place as long.
        let stream = Speaking::new(stream, last_word.clone(), place);
        let service = service_fn(move |mut request| {
            let caller = caller(peer.ip(), request.headers(), &settings.trusted_proxies);
            request.extensions_mut().insert(Caller(caller));
            request.extensions_mut().insert(last_word.clone());
            doors.clone().answer(request)
        });
        let serving = http.serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving.with_upgrades());
        // A peer's broken connection is the peer's business.
        tokio::select! {
            _ = serving.as_mut() => return,
            () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        let _ = serving.await;
    }
}

/// Who calls: the peer, or whom a trusted proxy says it called for. The list is read from its end, so
/// that nobody can put a name in front of the one our own proxy wrote.
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

/// Certificate and key from PEM files.
pub fn tls(cert: &std::path::Path, key: &std::path::Path) -> anyhow::Result<TlsAcceptor> {
    use anyhow::Context;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("certificate {}", cert.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("private key {}", key.display()))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its key do not fit together")?;
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
