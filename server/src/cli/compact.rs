//! `tidings-server compact`: gives disk space back.

use tidings_server::admin::{Compacted, Operator, Room};

use super::{Common, Fault, block_on, output};

/// Compacts the store of a running server, or a store that no server has open.
pub(super) fn run(common: &Common) -> Result<(), Fault> {
    let config = common.resolve()?;
    block_on(async {
        let operator = Operator::find(&config).await?;
        let progress = |room: Room| {
            if let (false, Some(text)) = (common.json, underway(&room)) {
                output::note(&text);
            }
        };
        let done = operator.compact(progress).await;
        let closed = operator.close().await;
        let done = done?;
        closed?;
        if common.json {
            output::json(&done);
        } else {
            output::line(&report(&done));
        }
        Ok(())
    })
}

/// What is said while it goes on.
fn underway(room: &Room) -> Option<String> {
    let (copied, live) = (room.copied?, room.live?);
    Some(format!("copied {} of {}", size(copied), size(live)))
}

fn report(done: &Compacted) -> String {
    let live = done.live.map(|live| format!(", of which {} are in use", size(live)));
    let live = live.unwrap_or_default();
    match done.after < done.before {
        true => {
            format!(
                "The store took {} and takes {} now{live}.",
                size(done.before),
                size(done.after)
            )
        }
        false => format!("There was nothing to gain: the store takes {}{live}.", size(done.after)),
    }
}

/// A size as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut units = UNITS.iter();
    let (mut whole, mut tenths, mut unit) = (bytes, 0, "bytes");
    while whole >= 1024 {
        let Some(next) = units.next() else { break };
        (whole, tenths, unit) = (whole / 1024, whole % 1024 * 10 / 1024, next);
    }
    if tenths > 0 { format!("{whole}.{tenths} {unit}") } else { format!("{whole} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_people() {
        let shown = [0, 1023, 1024, 1536, 500 << 20, 3 << 40].map(size);
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "500 MiB", "3 TiB"]);
    }

    #[test]
    fn the_report_says_what_was_gained() {
        let done = Compacted { before: 500 << 20, after: 120 << 20, live: Some(49 << 20) };
        let text = "The store took 500 MiB and takes 120 MiB now, of which 49 MiB are in use.";
        assert_eq!(report(&done), text);
        let done = Compacted { before: 8 << 20, after: 8 << 20, live: None };
        assert_eq!(report(&done), "There was nothing to gain: the store takes 8 MiB.");
        assert_eq!(underway(&Room { disk: 9, live: Some(9), copied: None }), None);
        let room = Room { disk: 9, live: Some(2 << 20), copied: Some(1 << 20) };
        assert_eq!(underway(&room).unwrap(), "copied 1 MiB of 2 MiB");
    }
}
