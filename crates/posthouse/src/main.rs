//! The `posthouse` binary: command line, wiring and benchmarks.

mod bench;
mod cli;
mod config;
mod custom_stores;
mod doors;
mod egress_router;
mod hardening;
mod key_files;
mod server;
mod up;
mod web_enrolment;
mod wiring;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, so that the crypto provider does not depend on which cargo features are on.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("posthouse: another crypto provider was installed first");
        return ExitCode::FAILURE;
    }
    if let Err(error) = hardening::forbid_dumps() {
        eprintln!("posthouse: cannot switch off core dumps: {error}");
        return ExitCode::FAILURE;
    }
    // Files of the server are private to its user, because the ledger contains messages of people.
    let users_umask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    cli::run(users_umask)
}
