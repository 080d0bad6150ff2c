//! A relay connection through TLS. The certificate and its key belong to this test and are valid for
//! loopback only.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use posthouse_agent::wire::{Descriptor, Secret, ToGateway};
use posthouse_agent::{Fault, RelayTransport, Settings, WebSocketTransport};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;

use crate::test_server::{GATEWAY, SECRET, soon};

#[tokio::test]
async fn a_server_behind_tls_is_reached_when_trusted_and_only_then() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_slice(include_bytes!("loopback.cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("loopback.key.pem")).unwrap();
    let tls_config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls_config));
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects here.
            let Ok(tls) = acceptor.accept(tcp).await else { continue };
            let mut socket = tokio_tungstenite::accept_async(tls).await.unwrap();
            socket.next().await;
            let descriptor = ToGateway::Descriptor(Box::new(Descriptor::new("alpha", "Alpha")));
            socket.send(Message::text(descriptor.line())).await.unwrap();
            while let Some(Ok(_)) = socket.next().await {}
        }
    });

    let settings = Settings::new(url, GATEWAY, Secret::new(SECRET));
    let stranger = WebSocketTransport::new(settings.clone()).unwrap();
    assert!(matches!(soon(stranger.connect()).await, Err(Fault::Unreachable(_))));
    let transport = WebSocketTransport::new(settings.tls(Arc::new(client))).unwrap();
    soon(transport.connect()).await.unwrap();
    assert_eq!(transport.handshake().await.unwrap().platform, "alpha");
}
