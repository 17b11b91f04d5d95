//! Noticing that the computer slept, which leaves connections behind that look alive.
//!
//! The clock that runs on during sleep is compared with the one that does not. On Linux a timer of
//! the former asks for the comparison: it is due at once when the computer wakes up after a longer
//! sleep, and costs one wake-up of the processor a time, where the runtime's own timers cost four.

use std::time::Duration;

use crate::clock::Clock;

/// Sleeps shorter than this do not count: clocks are not read at one moment.
const SHORTEST: Duration = Duration::from_secs(2);

/// Watches over one session.
#[derive(Debug)]
pub(super) struct SleepWatch {
    clock: Clock,
    timer: Timer,
    /// How long the computer had slept since its start when it was last compared.
    slept: Duration,
}

impl SleepWatch {
    /// Compares the clocks this often.
    pub(super) fn new(clock: Clock, every: Duration) -> Self {
        let slept = slept(&clock);
        Self { clock, timer: Timer::new(every), slept }
    }

    /// Returns after the computer has slept. Nothing is lost if it is dropped before.
    pub(super) async fn woken(&mut self) {
        loop {
            self.timer.tick().await;
            let before = std::mem::replace(&mut self.slept, slept(&self.clock));
            if self.slept.saturating_sub(before) > SHORTEST {
                return;
            }
        }
    }
}

/// How long the computer has slept since it started.
fn slept(clock: &Clock) -> Duration {
    clock.boot().saturating_sub(clock.awake())
}

#[cfg(target_os = "linux")]
use boot_timer::Timer;

#[cfg(target_os = "linux")]
mod boot_timer {
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;

    /// A timer of the clock that goes on during sleep; none where the system has none left.
    #[derive(Debug)]
    pub(super) struct Timer {
        every: Duration,
        /// No pipe, but read like one: eight bytes whenever it was due.
        expirations: Option<Receiver>,
    }

    impl Timer {
        pub(super) fn new(every: Duration) -> Self {
            Self { every, expirations: open(every).ok() }
        }

        pub(super) async fn tick(&mut self) {
            let due = match &mut self.expirations {
                Some(expirations) => expirations.read(&mut [0; 8]).await.is_ok(),
                None => false,
            };
            if !due {
                self.expirations = None;
                tokio::time::sleep(self.every).await;
            }
        }
    }

    fn open(every: Duration) -> std::io::Result<Receiver> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let every = Timespec::try_from(every).map_err(std::io::Error::other)?;
        let times = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &times)?;
        Receiver::from_owned_fd_unchecked(fd)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Timer(Duration);

#[cfg(not(target_os = "linux"))]
impl Timer {
    fn new(every: Duration) -> Self {
        Self(every)
    }

    async fn tick(&mut self) {
        tokio::time::sleep(self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_ticks_again_and_again() {
        let mut timer = Timer::new(Duration::from_millis(5));
        let ticks = async {
            for _ in 0..3 {
                timer.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ticks).await.unwrap();
    }

    #[tokio::test]
    async fn a_sleep_is_noticed_and_a_nap_is_not() {
        let clock = Clock::manual(0);
        let mut watch = SleepWatch::new(clock.clone(), Duration::from_millis(5));
        let wait = Duration::from_secs(10);
        clock.sleep(Duration::from_secs(60));
        tokio::time::timeout(wait, watch.woken()).await.unwrap();
        // It is noticed once, and what is too short to matter is not.
        clock.sleep(Duration::from_secs(1));
        for _ in 0..3 {
            watch.timer.tick().await;
        }
        assert!(tokio::time::timeout(Duration::ZERO, watch.woken()).await.is_err());
        clock.sleep(Duration::from_secs(60));
        tokio::time::timeout(wait, watch.woken()).await.unwrap();
    }
}
