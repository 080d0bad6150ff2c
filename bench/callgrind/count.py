#!/usr/bin/env python3
"""Counts the instructions that a message costs the server, outside the kernel.

    count.py BINARY [SECONDS]

Runs `BINARY bench relay --only peak` with the server under callgrind, once for 3 seconds and once for SECONDS (40). The
difference between both runs, divided by the difference of their numbers of messages, leaves out the start of the server.
The binary needs its symbols (profile `fast`).
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Every stored message gets its id here, once.
MESSAGE = "posthouse_wire::id::EntryId::mint"
# A function of the thread that writes to the ledger.
WRITER = "ledger::sqlite::writer::run"


def read(output: Path) -> tuple[int, int, bool]:
    """The instructions of one thread, the number of messages in it, and whether it is the writer."""
    names, callee, is_call = {}, "", False
    instructions = messages = 0
    is_writer = False
    for line in output.open(errors="replace"):
        if named := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            if named[3] is not None:
                names[named[2]] = named[3].strip()
            name = names[named[2]]
            is_writer |= WRITER in name
            if named[1]:
                callee = name
        elif line.startswith("calls="):
            is_call = True
            if callee.startswith(MESSAGE):
                messages += int(line[6:].split()[0])
        elif line[0] in "+-*0123456789":
            # The line after `calls=` has the cost of the call, which its callee has too.
            if not is_call and len(cost := line.split()) > 1:
                instructions += int(cost[1])
            is_call = False
    return instructions, messages, is_writer


def run(binary: str, seconds: str) -> tuple[int, int, int]:
    """The instructions of all threads, those of the writer, and the number of messages."""
    with tempfile.TemporaryDirectory() as folder:
        bench = [binary, "bench", "relay", "--only", "peak", "--seconds", seconds]
        subprocess.run([Path(__file__).with_name("run"), folder, *bench], check=True)
        threads = [read(output) for output in Path(folder).glob("counts.*-*")]
    writer = sum(instructions for instructions, _, is_writer in threads if is_writer)
    return sum(thread[0] for thread in threads), writer, sum(thread[1] for thread in threads)


def main() -> None:
    binary, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "40"
    short, long = run(binary, "3"), run(binary, seconds)
    total, writer, messages = (more - less for less, more in zip(short, long, strict=True))
    print(f"{messages} messages: {total // messages} instructions each, {writer // messages} of them in the writer")


if __name__ == "__main__":
    main()
