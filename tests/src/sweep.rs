//! The k-th failure sweep: a fixed script of 40 operations runs against the real server, or the
//! real daemon, again and again, and each time another single call to the system goes wrong.
//!
//! Every call that opens, writes, renames, resizes or syncs one of the program's files fails once
//! with EIO, once with ENOSPC, and once the program is killed at it (`strace` does that); every
//! read fails once; every write is once cut in half, with and without a kill (the disk of the tests does that, because
//! strace can only lie about a write, not shorten it). Afterwards: whatever was acknowledged is
//! there, whatever was not is there whole or not at all, refusals were typed, a failed sync of the
//! data ended the program, and the next start, without any fault, is clean.

mod fault;
mod program;
mod trace;

use serde::Serialize;
use tidings_disk::pick;

pub use self::fault::{Act, Call, Fault, Phase};
use self::program::Program;
pub use self::program::Subject;

/// What a sweep did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Swept {
    /// Faults that came.
    pub faults: u64,
    /// Faults that were asked for and never came: the script took another way.
    pub missed: u64,
    /// Operations that were acknowledged.
    pub acknowledged: u64,
    /// Operations that were refused or died.
    pub refused: u64,
    /// Faults after which the program ended by itself, exit code not 0.
    pub ended: u64,
    /// Faults after which it refused to start.
    pub unopened: u64,
    /// Promises that were broken, each with its fault.
    pub broken: Vec<String>,
}

/// Operations of the script.
const SCRIPT: usize = 40;

/// Sweeps one program, with all its faults or so many of them as a seed chooses. `told` hears of
/// each.
///
/// # Panics
/// There is no runtime, the beginning cannot be made, or the system does not let us trace.
pub fn sweep(
    subject: Subject,
    sample: Option<(u64, usize)>,
    told: &mut dyn FnMut(&Swept, &Fault, usize),
) -> Swept {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut program = runtime.block_on(Program::prepare(subject));
    let seen = runtime.block_on(program.profile());
    let mut faults =
        seen.unwrap_or_else(|reason| panic!("nothing can be swept: {reason}")).faults();
    if let Some((seed, count)) = sample {
        let all = faults.len() as u64;
        let mut places: Vec<_> = (0..all).collect();
        places.sort_by_key(|place| pick(seed ^ place.rotate_left(32), u64::MAX));
        places.truncate(count);
        faults = places.into_iter().map(|place| faults[place as usize]).collect();
    }
    let mut swept = Swept::default();
    for fault in &faults {
        let outcome = runtime.block_on(program.suffer(*fault, &mut swept));
        swept.broken.extend(outcome.err().map(|wrong| format!("{fault:?}: {wrong}")));
        told(&swept, fault, faults.len());
    }
    swept
}
