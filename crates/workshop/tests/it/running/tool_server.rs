//! A tool server and a model on loopback that behave well or badly, by the path of a request.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub struct ToolServer {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl ToolServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, bodies) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let kept = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let _ = serve(stream, &kept).await;
                });
            }
        });
        Self { address, bodies }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn bodies(&self) -> Vec<String> {
        self.bodies.lock().clone()
    }

    /// The methods of all requests, in order.
    pub fn methods(&self) -> Vec<String> {
        let method =
            |body: &String| serde_json::from_str::<Value>(body).ok()?["method"].as_str().map(str::to_owned);
        self.bodies.lock().iter().filter_map(method).collect()
    }
}

async fn serve(stream: TcpStream, bodies: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8(body).unwrap();
        bodies.lock().push(body.clone());
        let request: Value = serde_json::from_str(&body).unwrap();
        let id = request["id"].clone();
        let is_call = request["method"] == "tools/call";
        let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let text = |text: &str| answer(json!({ "content": [{ "type": "text", "text": text }] }));
        let echo = || text(&json!({ "echo": request["params"]["arguments"] }).to_string());
        let plain = "application/json";
        let (status, kind, reply) = match path.as_str() {
            "/ollama/api/generate" => (
                200,
                plain,
                json!({ "response": format!("because ({})", request["model"].as_str().unwrap()) })
                    .to_string(),
            ),
            "/openai/chat/completions" => {
                let content = format!("because ({})", request["model"].as_str().unwrap());
                (200, plain, json!({ "choices": [{ "message": { "content": content } }] }).to_string())
            }
            "/large/chat/completions" => {
                let numbers = vec![0; 1 << 20];
                let choice = json!({ "message": { "content": "because" } });
                (200, plain, json!({ "choices": [choice], "context": numbers }).to_string())
            }
            "/endless/chat/completions" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b'x'; 65536]).await?;
                }
            }
            _ if !is_call => (200, plain, answer(json!({}))),
            "/json" => (200, plain, echo()),
            "/stream" => {
                // The stream stays open behind the answer.
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                let event = format!("{head}: hello\n\ndata: {}\n\n", echo());
                stream.write_all(event.as_bytes()).await?;
                stream.flush().await?;
                return std::future::pending().await;
            }
            "/nonsense" => (200, plain, "<html>".to_owned()),
            "/refused" => (401, plain, "connector-token is wrong".to_owned()),
            "/error" => {
                let error = json!({ "code": -32000, "message": format!("no: {body} connector-token") });
                (200, plain, json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
            }
            "/is-error" => {
                let content = json!([{ "type": "text", "text": "out of paper" }]);
                (200, plain, answer(json!({ "content": content, "isError": true })))
            }
            "/huge" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n").await?;
                for _ in 0..1600 {
                    stream.write_all(&[b'x'; 65536]).await?;
                }
                return Ok(());
            }
            "/broken" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await?;
                stream.flush().await?;
                return Ok(());
            }
            "/hang" => return std::future::pending().await,
            other => panic!("unknown path {other}"),
        };
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", reply.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(reply.as_bytes()).await?;
        stream.flush().await?;
    }
}
