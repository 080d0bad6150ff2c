//! Test server: the real binary in its own folder, driven by its command line.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_posthouse");

/// Far past anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that can be killed and started again in the same place.
pub struct TestServer {
    pub dir: TempDir,
    folder: PathBuf,
    pub url: String,
    env: Vec<(String, String)>,
    child: Option<Child>,
    /// Copies what it prints into the log, until it has ended.
    reading: Option<JoinHandle<()>>,
    _place: ReservedPort,
    /// Everything it printed, over all its lives.
    pub log: Arc<Mutex<String>>,
}

impl TestServer {
    /// Makes a server and opens it on a free port, which it keeps over restarts.
    pub fn open(env: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("house");
        Self::open_at(dir, folder, env)
    }

    /// The same, in a folder of the caller's choice.
    pub fn open_at(dir: TempDir, folder: PathBuf, env: &[(&str, &str)]) -> Self {
        let made = Command::new(BINARY).arg("init").arg(&folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self::open_on(dir, folder, env)
    }

    /// The same, with what is in that folder already.
    pub fn open_on(dir: TempDir, folder: PathBuf, env: &[(&str, &str)]) -> Self {
        let place = ReservedPort::take();
        let port = place.port;
        let url = format!("http://127.0.0.1:{port}");
        let mut all = vec![
            ("POSTHOUSE_SERVER__LISTEN".to_owned(), format!("127.0.0.1:{port}")),
            // Set explicitly: an address that the stand-ins can reach.
            ("POSTHOUSE_SERVER__PUBLIC_URL".to_owned(), url.clone()),
            ("POSTHOUSE_ERRAND__ALLOW_HTTP".to_owned(), "true".to_owned()),
            ("POSTHOUSE_ERRAND__ALLOW_CIDRS".to_owned(), "127.0.0.0/8".to_owned()),
        ];
        all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut server = Self {
            dir,
            folder,
            url,
            env: all,
            child: None,
            reading: None,
            _place: place,
            log: Arc::default(),
        };
        server.start();
        server
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Starts the binary and returns when it says that it is ready.
    pub fn start(&mut self) {
        // Another process may use the port for a moment.
        for _ in 0..600 {
            match self.tries_to_start() {
                Ok(()) => return,
                Err(said) if said.contains("in use") => std::thread::sleep(Duration::from_millis(100)),
                Err(said) => panic!("the server did not open: {said}"),
            }
        }
        panic!("the port stays in use\n{}", self.log.lock().unwrap());
    }

    /// What it said instead of being ready, if it ended.
    fn tries_to_start(&mut self) -> Result<(), String> {
        let before = self.log.lock().unwrap().len();
        let mut child = Command::new(BINARY)
            .args(["serve", "--config"])
            .arg(self.folder().join("posthouse.toml"))
            .envs(self.env.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::clone(&self.log);
        let reading = std::thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                log.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let (tell, first_line) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            tell.send(line)
        });
        let Ok(ready) = first_line.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("not ready within {PATIENCE:?}:\n{}", self.log.lock().unwrap());
        };
        if !ready.contains("posthouse is ready at") {
            let _ = child.kill();
            child.wait().unwrap();
            reading.join().unwrap();
            return Err(format!("{ready}{}", &self.log.lock().unwrap()[before..]));
        }
        self.log.lock().unwrap().push_str(&ready);
        self.child = Some(child);
        self.reading = Some(reading);
        Ok(())
    }

    /// The first line of its log with these words, as soon as it is written.
    pub async fn logs(&self, words: &str) -> String {
        let line = || self.log.lock().unwrap().lines().find(|line| line.contains(words)).map(str::to_owned);
        let written = async {
            loop {
                match line() {
                    Some(line) => return line,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let written = tokio::time::timeout(Duration::from_secs(60), written).await;
        written.unwrap_or_else(|_| panic!("no line says `{words}`:\n{}", self.log.lock().unwrap()))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The most memory that the process ever used, in KiB.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Starts again under another public address on the same port.
    pub fn moves_to(&mut self, public_url: &str) {
        self.url = public_url.to_owned();
        self.env.push(("POSTHOUSE_SERVER__PUBLIC_URL".to_owned(), public_url.to_owned()));
        self.start();
    }

    /// Starts again in another folder, under the same address.
    pub fn moves_into(&mut self, folder: PathBuf) {
        self.folder = folder;
        self.start();
    }

    /// SIGKILL: no goodbye of any kind.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
            self.reads_to_the_end();
        }
    }

    /// Returns when everything that it printed is in the log.
    fn reads_to_the_end(&mut self) {
        if let Some(reading) = self.reading.take() {
            reading.join().unwrap();
        }
    }

    /// SIGTERM; true when it ended by itself with exit code 0.
    pub fn stop(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return false };
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM).unwrap();
        let (tell, ended) = mpsc::channel();
        std::thread::spawn(move || tell.send(child.wait()));
        let Ok(status) = ended.recv_timeout(PATIENCE) else {
            let _ = kill_process(pid, Signal::KILL);
            panic!("still there {PATIENCE:?} after SIGTERM\n{}", self.log.lock().unwrap());
        };
        self.reads_to_the_end();
        status.unwrap().success()
    }

    /// One command against this server, its answer as JSON.
    pub fn does(&self, words: &[&str]) -> Value {
        let output = self.tries(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    pub fn tries(&self, words: &[&str]) -> Output {
        Command::new(BINARY).arg("--json").arg("--dir").arg(self.folder()).args(words).output().unwrap()
    }

    /// A file with a secret in it, for commands that take one.
    pub fn secret_file(&self, name: &str, secret: &str) -> String {
        let path = self.dir.path().join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
        file.write_all(secret.as_bytes()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that stays reserved for one server while it is down. It is below the range from which the system
/// assigns ports. The UDP port of the same number is held as long as the server exists, so that no other
/// test takes it.
struct ReservedPort {
    port: u16,
    _held: UdpSocket,
}

impl ReservedPort {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;

    fn take() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Tests run in many processes, so each starts its search at another port.
        let begin = std::process::id().wrapping_mul(37);
        for _ in 0..Self::COUNT {
            let turn = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % Self::COUNT;
            let port = u16::try_from(Self::FIRST + turn).unwrap();
            let Ok(held) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Self { port, _held: held };
            }
        }
        panic!("no port is free");
    }
}

/// Every file below a folder, with its bytes.
pub fn files(below: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found
}
