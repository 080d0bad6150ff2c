//! Test HTTP server: counts connections, remembers the last request and gives a fixed answer.

use errand::{Config, Errand, Lookup, LookupResult};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Listener {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heard: Arc<tokio::sync::watch::Sender<String>>,
}

/// What happens to the connection after the answer.
pub type After = fn(TcpStream) -> std::pin::Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>>;

/// Holds the connection open and says nothing more.
pub fn never(stream: TcpStream) -> std::pin::Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>> {
    Box::pin(async move {
        let _held = stream;
        std::future::pending().await
    })
}

fn close(_: TcpStream) -> std::pin::Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>> {
    Box::pin(async { None })
}

fn again(stream: TcpStream) -> std::pin::Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>> {
    Box::pin(async { Some(stream) })
}

impl Listener {
    /// Answers one request per connection, says that it closes, and closes.
    pub async fn answers(answer: &str) -> Self {
        Self::answers_then(&answer.replacen("\r\n", "\r\nConnection: close\r\n", 1), close).await
    }

    /// Answers every request of a connection.
    pub async fn keeps_answering(answer: &str) -> Self {
        Self::answers_then(answer, again).await
    }

    pub async fn answers_then(answer: &str, after: After) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let heard = Arc::new(tokio::sync::watch::Sender::new(String::new()));
        let (count, ear, answer) = (Arc::clone(&connections), Arc::clone(&heard), answer.to_owned());
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&ear), answer.clone(), after));
            }
        });
        Self { address, connections, heard }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same door under a name.
    pub fn url_of(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    pub fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The last request, once there is one.
    pub async fn heard(&self) -> String {
        self.heard.subscribe().wait_for(|heard| !heard.is_empty()).await.unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    ear: Arc<tokio::sync::watch::Sender<String>>,
    answer: String,
    after: After,
) {
    loop {
        let Some(request) = request(&mut stream).await else { return };
        ear.send_replace(request);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        match after(stream).await {
            Some(kept) => stream = kept,
            None => return,
        }
    }
}

async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub fn install_provider() {
    // Whoever comes second finds it installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

pub fn errand(config: Config) -> Errand {
    install_provider();
    Errand::new(config)
}

/// Answers each lookup with the next list, and the last one for ever after.
pub struct Names {
    lists: Mutex<Vec<Vec<IpAddr>>>,
    pub asked: AtomicUsize,
}

impl Names {
    pub fn of(lists: &[&[&str]]) -> Arc<Self> {
        let list = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self {
            lists: Mutex::new(lists.iter().rev().map(list).collect()),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Lookup for Names {
    fn lookup(&self, _: &str) -> LookupResult {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut lists = self.lists.lock().unwrap();
        let found = if lists.len() > 1 { lists.pop().unwrap() } else { lists[0].clone() };
        Box::pin(async move { Ok(found) })
    }
}
