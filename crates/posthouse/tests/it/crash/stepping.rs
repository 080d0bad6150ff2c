//! Crash test with a wall clock that steps back and forth by days.
//!
//! A small library, preloaded into the real binary, adds an offset to the system's wall clock. The
//! monotonic clock is unchanged, as on a real machine.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Dice;

const DAY_SECONDS: i64 = 24 * 3600;

/// Adds the seconds in a file, which stays mapped, to every reading of the wall clock. It asks the kernel
/// itself, since it may be called before the dynamic linker has found anything else.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec read;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &read)) return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec read;
    if (clock_gettime(CLOCK_REALTIME, &read)) return (time_t)-1;
    if (out) *out = read.tv_sec;
    return read.tv_sec;
}
"#;

/// The wall clock of a server under test.
pub struct SteppingClock {
    shim: PathBuf,
    offset: PathBuf,
    file: File,
}

impl SteppingClock {
    /// Builds the library in `folder`; the clock is right at first.
    pub fn build(folder: &Path) -> Self {
        let (source, shim) = (folder.join("stepping_clock.c"), folder.join("stepping_clock.so"));
        fs::write(&source, SHIM).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&shim, &source])
            .output()
            .expect("a C compiler is there, or the server itself could not have been built");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let offset = folder.join("clock_offset");
        fs::write(&offset, 0_i64.to_ne_bytes()).unwrap();
        let file = File::options().write(true).open(&offset).unwrap();
        Self { shim, offset, file }
    }

    /// What the server is started with.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.shim.display().to_string()),
            ("CLOCK_OFFSET_FILE", self.offset.display().to_string()),
        ]
    }

    /// Sets the server's wall clock so many seconds ahead of the right time, or behind it.
    pub fn set(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// Sets it wrong by one to forty days, ahead or behind.
    pub fn set_wrong(&self, dice: &mut Dice) {
        let days = 1 + dice.below(40) as i64;
        self.set(if dice.below(2) == 0 { days } else { -days } * DAY_SECONDS);
    }

    /// Sets it behind by eight to forty days: longer than a message is kept.
    pub fn set_behind(&self, dice: &mut Dice) {
        self.set(-(8 + dice.below(32) as i64) * DAY_SECONDS);
    }
}
