# Names for commands one would type anyway; no logic lives here.

# A server, a chat page, and a sample agent to talk to.
up:
    cargo run --release -- up

# Everything, or these parts: `just test lint rust`.
test *parts:
    ./test {{ parts }}

# The first figures of docs/performance.md.
bench:
    cargo run --release -- bench relay

fmt:
    cargo fmt --all
