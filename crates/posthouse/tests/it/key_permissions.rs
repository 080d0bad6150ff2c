//! Key files that every user of the machine can read: neither the server nor a command uses them.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::test_server::{BINARY, TestServer};

#[test]
fn a_key_that_everybody_can_read_is_refused_by_the_server_and_by_commands() {
    let mut server = TestServer::open(&[]);
    let (token, key) = (server.folder().join("admin.token"), server.folder().join("vault.key"));
    set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    let refused = server.tries(&["tenant", "list"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("chmod 600 {}", token.display())), "{said}");
    set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    server.does(&["tenant", "list"]);

    server.kill();
    set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let serving = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(server.folder().join("posthouse.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&serving.stderr).into_owned();
    assert!(!serving.status.success() && said.contains(&format!("chmod 600 {}", key.display())), "{said}");
    set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    server.start();
}
