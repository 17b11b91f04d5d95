//! Being asked to stop: Ctrl-C and the service manager's SIGTERM.

use std::io;

/// Waits for the first of SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Stop {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Stop {
    /// Listens from now on; a signal between this and [`Stop::asked`] is not lost.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                signals: [
                    signal(SignalKind::interrupt())?,
                    signal(SignalKind::terminate())?,
                    signal(SignalKind::hangup())?,
                ],
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Returns when the process is asked to stop.
    pub async fn asked(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate, hangup] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        }
        #[cfg(not(unix))]
        {
            // Without a handler the default action ends the process, which is what is wanted.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
