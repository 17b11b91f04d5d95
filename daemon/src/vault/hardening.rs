//! What keeps secrets in memory from lying on disk after a crash.

/// Forbids core dumps and reading this process's memory by others of the same user
/// (`PR_SET_DUMPABLE` 0). Called once at the daemon's start.
///
/// # Errors
/// The system refused.
#[cfg(target_os = "linux")]
pub fn forbid_core_dumps() -> std::io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(Into::into)
}

/// Elsewhere the system's own rules hold.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn forbid_core_dumps() -> std::io::Result<()> {
    Ok(())
}
