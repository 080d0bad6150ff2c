//! Trusted proxy that gives every connection another client address, because refusals slow an address down.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Passes connections on to this address for as long as the test runs; returns the proxy's own.
pub fn open(to: &str) -> String {
    let server = to.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (number, caller) in listener.incoming().enumerate() {
            let from = format!("198.19.{}.{}", number / 250 % 250, number % 250 + 1);
            let (caller, server) = (caller.unwrap(), server.clone());
            // Either side may hang up whenever it likes.
            thread::spawn(move || pass_on(caller, &server, &from));
        }
    });
    url
}

fn pass_on(caller: TcpStream, server: &str, from: &str) -> io::Result<()> {
    let mut to = TcpStream::connect(server)?;
    let (mut back, mut answers) = (caller.try_clone()?, to.try_clone()?);
    let answering = thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut caller = BufReader::new(caller);
    let mut first_line = String::new();
    caller.read_line(&mut first_line)?;
    to.write_all(format!("{first_line}x-forwarded-for: {from}\r\n").as_bytes())?;
    let _ = io::copy(&mut caller, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = answering.join();
    Ok(())
}
