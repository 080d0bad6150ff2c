//! Description of the machine: CPU, memory, kernel, filesystem, load.

use std::fs;
use std::path::Path;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_gib: u64,
    pub kernel: String,
    /// Type and device of the filesystem of the server folders.
    pub filesystem: String,
    pub load: String,
    pub build: &'static str,
}

pub fn describe(folder: &Path) -> anyhow::Result<Machine> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let memory_kib =
        value_of(&meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Ok(Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        cpu: value_of(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
        memory_gib: memory_kib.unwrap_or(0) / (1024 * 1024),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        filesystem: filesystem(&fs::read_to_string("/proc/self/mountinfo")?, folder),
        load: fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or("?").to_owned(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" },
    })
}

fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The mount with the longest path above `folder`: its type and device.
fn filesystem(mounts: &str, folder: &Path) -> String {
    let mut best = (0, "unknown filesystem".to_owned());
    for line in mounts.lines() {
        let (Some(point), Some((_, after))) = (line.split(' ').nth(4), line.split_once(" - ")) else {
            continue;
        };
        let mut after = after.split(' ');
        if let (true, Some(kind), Some(device)) = (folder.starts_with(point), after.next(), after.next())
            && point.len() >= best.0
        {
            best = (point.len(), format!("{kind} on {device}"));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lies_on_the_deepest_mount_above_it() {
        let mounts = "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                      30 21 0:26 / /tmp rw,nosuid shared:4 - tmpfs tmpfs rw\n";
        assert_eq!(filesystem(mounts, Path::new("/tmp/house")), "tmpfs on tmpfs");
        assert_eq!(filesystem(mounts, Path::new("/var/house")), "ext4 on /dev/vda");
    }
}
