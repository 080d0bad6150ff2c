# Names for commands one would type anyway; no logic lives here.

# A house with a page and an agent to talk to.
up:
    cargo run --release -- up

# Everything, or these parts: `just test lint rust`.
test *parts:
    ./test {{ parts }}

# The figures of the README's performance section.
bench:
    cargo run --release -- bench relay

fmt:
    cargo fmt --all
