//! The soak: a real server and two real daemons die again and again, by `kill -9` or by a power
//! cut, at moments that nobody chose, while everything writes; and every single promise is looked
//! for afterwards.
//!
//! One round: writers write through both sockets and push by hand; in the midst of it one program
//! ends; it starts again on what is left of its disk. Then each acknowledged local write has to be
//! on its device and, once they have come together, on the other one; each acknowledged push has
//! to be on the server, once; and no daemon may have noticed anything amiss. All is decided by a
//! seed. The program `soak` runs it as long as one likes, the tests a little.

pub(crate) mod pushes;
mod rounds;
pub(crate) mod rows;
mod scene;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use self::rounds::{End, Plan, Round, Target};
use self::scene::Scene;

/// What a soak did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// What every choice came from.
    pub seed: u64,
    /// The server's engine.
    pub engine: String,
    /// Programs killed while everything wrote.
    pub kills: u64,
    /// Those of them at a change of a file that was chosen.
    pub at_a_change: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Programs killed, or cut off, while they started.
    pub openings: u64,
    /// Writes to disk that power cuts took back, in whole or in part.
    pub undone: u64,
    /// Acknowledged local writes.
    pub writes: u64,
    /// Acknowledged pushes by hand.
    pub pushes: u64,
    /// Writes and pushes that died unanswered.
    pub unanswered: u64,
    /// How often a promise was looked for and found.
    pub checked: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// The round that it came to.
    pub round: String,
    /// What was lost, or whatever else went wrong; the soak ended there.
    pub lost: Option<String>,
}

/// Runs a plan to its end, to its time's end, or to the first broken promise. `told` hears of each
/// round, and how many there are.
///
/// # Panics
/// There is no runtime.
pub fn soak(plan: &Plan, told: &mut dyn FnMut(&Tally, usize)) -> Tally {
    let start = Instant::now();
    let mut tally = Tally { seed: plan.seed, engine: plan.engine.to_owned(), ..Tally::default() };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // A panic, as everywhere in these tests: it makes every program show its log.
    let work = AssertUnwindSafe(|| runtime.block_on(run(plan, start, &mut tally, told)));
    if let Err(panic) = std::panic::catch_unwind(work) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        tally.lost = Some(text.unwrap_or_else(|| "a panic".to_owned()));
    }
    tally.seconds = start.elapsed().as_secs_f64();
    tally
}

async fn run(plan: &Plan, start: Instant, tally: &mut Tally, told: &mut dyn FnMut(&Tally, usize)) {
    let rounds = plan.rounds();
    let mut scene = Scene::start(plan).await;
    scene.settle(&rounds).await;
    for (number, round) in rounds.iter().enumerate() {
        tally.round = format!("{number}, {round:?}");
        let rest = rounds.get(number + 1..).unwrap_or_default();
        let late = plan.most.is_some_and(|most| start.elapsed() >= most);
        // From the very beginning now and then: what was found once must stay.
        let whole = number % 50 == 49 || rest.is_empty() || late;
        let outcome = match scene.round(round, rest, tally).await {
            Ok(()) => scene.check(round, whole, tally).await,
            Err(wrong) => Err(wrong),
        };
        outcome.unwrap_or_else(|wrong| panic!("{wrong}"));
        tally.seconds = start.elapsed().as_secs_f64();
        told(tally, rounds.len());
        if late {
            break;
        }
    }
    "the end".clone_into(&mut tally.round);
    let outcome = scene.newcomer(tally).await;
    outcome.unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// Longest that one round may let everybody write before something ends.
const LONGEST: Duration = Duration::from_millis(200);
