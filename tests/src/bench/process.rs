//! What a process takes, and what the kernel takes for it, as `/proc` tells.

use std::fs::read_to_string;

/// Resident memory, in bytes.
///
/// # Panics
/// The process is gone.
pub(super) fn resident(id: u32) -> f64 {
    kib(&read_to_string(format!("/proc/{id}/status")).expect("a process that runs"), "VmRSS:")
}

/// The most that was ever resident, in bytes.
///
/// # Panics
/// The process is gone.
pub(super) fn peak_resident(id: u32) -> f64 {
    kib(&read_to_string(format!("/proc/{id}/status")).expect("a process that runs"), "VmHWM:")
}

/// CPU time of all its threads, in seconds. What ended threads took is not in it.
pub(super) fn cpu(id: u32) -> f64 {
    // schedstat counts nanoseconds, `stat` only ticks.
    let spent = |text: String| text.split_whitespace().next()?.parse::<f64>().ok();
    threads(id, "schedstat").into_iter().filter_map(spent).sum::<f64>() / 1e9
}

/// How often its threads have gone to sleep, which is how often they were woken up.
pub(super) fn sleeps(id: u32) -> f64 {
    let status = threads(id, "status");
    status.iter().map(|text| number(text, "voluntary_ctxt_switches:")).sum()
}

/// The kernel's own memory, in bytes.
pub(super) fn kernel_memory() -> f64 {
    kib(&read_to_string("/proc/meminfo").unwrap_or_default(), "SUnreclaim:")
}

fn threads(id: u32, file: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("a process that runs");
    tasks.filter_map(|task| read_to_string(task.ok()?.path().join(file)).ok()).collect()
}

fn kib(text: &str, key: &str) -> f64 {
    number(text, key) * 1024.0
}

fn number(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}
