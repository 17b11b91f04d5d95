//! What the figures were measured on.

use std::fs::read_to_string;

/// One line: processor, cores, memory, kernel, file system of the temporary directory, build.
pub fn machine() -> String {
    let processors = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_start_matches(['\t', ' ', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    let memory = memory.unwrap_or(0) >> 20;
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    format!(
        "{model}, {cores} cores, {memory} GiB, Linux {}, {} for stores, {build}",
        kernel.trim(),
        file_system()
    )
}

/// The kind of file system that stores are made on.
fn file_system() -> String {
    let directory = std::env::temp_dir();
    let mounts = read_to_string("/proc/self/mounts").unwrap_or_default();
    let under = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        directory.starts_with(path).then_some((path.len(), kind))
    });
    under.max().map_or_else(|| "unknown file system".to_owned(), |(_, kind)| kind.to_owned())
}
