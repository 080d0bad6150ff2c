//! Tests of file permissions without root's privileges: as root, they run again in a process of `nobody`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

/// If this process is root, runs the test with this name in a process of the user `nobody`, and returns true. That
/// process returns false, as does any other that is not root.
pub fn was_run_without_privileges(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Other users may be unable to read the build folder.
    let program = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = Command::new(&program)
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("1 passed"), "the test did not run: {said}");
    true
}
