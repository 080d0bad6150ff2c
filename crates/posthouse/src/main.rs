//! The binary: one house, its command line and its wiring.

mod bench;
mod cli;
mod config;
mod doors;
mod house;
mod newcomers;
mod server;
mod up;
mod ways_out;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: nothing may depend on which provider a feature happened to switch on.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("posthouse: another crypto provider was installed first");
        return ExitCode::FAILURE;
    }
    // What this house writes is its owner's alone: the ledger holds what people said.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    cli::run()
}
