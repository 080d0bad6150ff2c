//! Agents that accept every fire at once and record its time, with little cost of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::super::poster::framed;
use super::super::stopwatch::wall_micros;

const TAKEN: &[u8] = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n\
    {\"status\":\"accepted\"}";
const FOREIGN: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

/// Due time and arrival of each job, in microseconds of the wall clock.
pub struct FireTimes {
    due: Vec<i64>,
    /// 0 means "not yet".
    came: Box<[AtomicI64]>,
    count: AtomicU64,
    again: AtomicU64,
}

impl FireTimes {
    pub fn new(due: Vec<i64>) -> Self {
        let came = due.iter().map(|_| AtomicI64::new(0)).collect();
        Self { due, came, count: AtomicU64::new(0), again: AtomicU64::new(0) }
    }

    pub fn due(&self) -> &[i64] {
        &self.due
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub fn again(&self) -> u64 {
        self.again.load(Ordering::Relaxed)
    }

    /// Delay of each fire after its due time, except for the first `but`; negative if it was early.
    pub fn late_us(&self, but: usize) -> Vec<i64> {
        let pairs = self.due.iter().zip(&self.came).skip(but);
        pairs.map(|(due, came)| came.load(Ordering::Relaxed) - due).collect()
    }

    fn note(&self, job: usize, now_us: i64) {
        let Some(came) = self.came.get(job) else { return };
        if came.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.count.fetch_add(1, Ordering::Release);
        } else {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The id of a job on the wire.
pub fn job(at: usize) -> String {
    format!("job-{at:08}")
}

fn number(body: &[u8]) -> Option<usize> {
    let body = std::str::from_utf8(body).ok()?;
    let (_, rest) = body.split_once("\"job_id\":\"job-")?;
    rest.get(..8)?.parse().ok()
}

/// Listens on several ports until dropped. The server treats each as a separate host.
pub struct FireReceivers {
    pub urls: Vec<String>,
    _listening: JoinSet<()>,
}

impl FireReceivers {
    pub async fn listen(hosts: usize, book: &Arc<FireTimes>) -> anyhow::Result<Self> {
        let (mut urls, mut listening) = (Vec::new(), JoinSet::new());
        for _ in 0..hosts {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            urls.push(format!("http://{}", listener.local_addr()?));
            listening.spawn(admit(listener, Arc::clone(book)));
        }
        Ok(Self { urls, _listening: listening })
    }
}

async fn admit(listener: TcpListener, book: Arc<FireTimes>) {
    let mut lines = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        lines.spawn(take(stream, Arc::clone(&book)));
        while lines.try_join_next().is_some() {}
    }
}

async fn take(mut stream: TcpStream, book: Arc<FireTimes>) {
    let mut request = Vec::with_capacity(4096);
    while let Ok(read) = stream.read_buf(&mut request).await
        && read > 0
    {
        let Ok(Some((head, body))) = framed(&request) else { continue };
        let now_us = wall_micros();
        // The agent would verify the token; here it only has to be present.
        let proven = head.to_ascii_lowercase().contains("\r\nauthorization: bearer ey");
        let answer = match number(body).filter(|_| proven) {
            Some(job) => {
                book.note(job, now_us);
                TAKEN
            }
            None => FOREIGN,
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
        request.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fire_is_found_by_its_job_and_counted_once() {
        let book = FireTimes::new(vec![1_000, 2_000]);
        let body = format!("{{\"job_id\":\"{}\",\"fire_at\":\"x\"}}", job(1));
        assert_eq!(number(body.as_bytes()), Some(1));
        assert_eq!(number(b"{\"job_id\":\"other\"}"), None);
        book.note(1, 2_500);
        book.note(1, 9_000);
        book.note(7, 9_000);
        assert_eq!((book.count(), book.again(), book.late_us(1)), (1, 1, vec![500]));
    }
}
