//! The one thread that writes: queue → jobs → one engine commit with one sync → acknowledgements.
//!
//! While a sync runs, more jobs gather in the queue, and the next commit takes them all: nobody
//! pays for a sync alone while others wait. An acknowledgement follows the sync of everything that
//! its job read or wrote. Compactions run on the same thread, a slice between two commits.

mod compactor;
mod job;
mod keeper;

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle, ThreadId},
    time::{Duration, Instant},
};

use self::{
    compactor::{Asker, Compactor},
    job::Work,
};
pub(crate) use self::{job::Job, keeper::Keeper};
use crate::{
    Compaction, Durability, FailureHook, Options, StoreError, Txn,
    records::{Identity, Records},
    space::Space,
};

/// A job on its way to the committer.
pub(crate) type Queued = (Durability, Box<dyn Work>);

/// What the committer is asked to do.
enum Order {
    Job(Queued),
    Compact(Asker),
}

/// Handle of the committing thread.
pub(crate) struct Committer {
    queue: Mutex<Option<SyncSender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
    failed: Failed,
}

/// Why the store stopped, once it has.
type Failed = Arc<OnceLock<Arc<str>>>;

impl Committer {
    pub(crate) fn start(
        records: Arc<Records>,
        identity: Identity,
        keeper: Arc<Mutex<Keeper>>,
        space: Space,
        options: &Options,
    ) -> Result<Self, StoreError> {
        let (sender, queue) = sync_channel(options.queue);
        let failed = Failed::default();
        let writer = Writer {
            compactor: Compactor::new(Arc::clone(&records), options),
            records,
            identity,
            keeper,
            space,
            failed: Arc::clone(&failed),
            on_failure: options.on_failure.clone(),
            limits: (options.batch_jobs, options.batch_bytes),
            relaxed_for: options.relaxed_for,
            sync_by: None,
        };
        let thread = thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || writer.serve(&queue))
            .map_err(|error| StoreError::io("start the committer's thread", error))?;
        Ok(Self {
            queue: Mutex::new(Some(sender)),
            id: thread.thread().id(),
            thread: Mutex::new(Some(thread)),
            failed,
        })
    }

    /// Hands a job over without waiting; gives it back with the reason if that cannot be.
    pub(crate) fn offer(&self, queued: Queued) -> Result<(), (Queued, StoreError)> {
        let Some(sender) = self.sender() else { return Err((queued, StoreError::Closed)) };
        sender.try_send(Order::Job(queued)).or_else(|error| match error {
            TrySendError::Full(Order::Job(queued)) => Err((queued, StoreError::Busy)),
            TrySendError::Disconnected(Order::Job(queued)) => Err((queued, StoreError::Closed)),
            _ => Ok(()),
        })
    }

    /// Hands a job over, waiting for room in the queue.
    pub(crate) fn enqueue(&self, queued: Queued) -> Result<(), StoreError> {
        let sender = self.sender().ok_or(StoreError::Closed)?;
        sender.send(Order::Job(queued)).map_err(|_| StoreError::Closed)
    }

    /// Compacts the store, or waits for the compaction that is under way.
    pub(crate) fn compact(&self) -> Result<Compaction, StoreError> {
        let (asker, outcome) = sync_channel(1);
        let sender = self.sender().ok_or(StoreError::Closed)?;
        sender.send(Order::Compact(asker)).map_err(|_| StoreError::Closed)?;
        drop(sender);
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn sender(&self) -> Option<SyncSender<Order>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The failed commit that stopped the store.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.failed.get().map(|reason| StoreError::Failed { reason: Arc::clone(reason) })
    }

    /// Whether the caller is the committing thread itself, which cannot wait for its own work.
    pub(crate) fn is_current(&self) -> bool {
        thread::current().id() == self.id
    }

    /// Takes no more jobs and waits until those that were taken are acknowledged.
    pub(crate) fn drain(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches what jobs do; a panic of its own was printed by the panic hook.
            let _ = thread.join();
        }
    }
}

/// The thread's own side.
struct Writer {
    records: Arc<Records>,
    compactor: Compactor,
    identity: Identity,
    keeper: Arc<Mutex<Keeper>>,
    space: Space,
    failed: Failed,
    on_failure: Option<FailureHook>,
    /// Jobs and bytes of one commit.
    limits: (usize, usize),
    relaxed_for: Duration,
    /// When relaxed commits have to be synced; none if all are.
    sync_by: Option<Instant>,
}

impl Writer {
    fn serve(mut self, queue: &Receiver<Order>) {
        loop {
            let next = match (self.compactor.is_underway(), self.sync_by) {
                (true, _) => queue.recv_timeout(Duration::ZERO),
                (false, None) => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (false, Some(at)) => {
                    queue.recv_timeout(at.saturating_duration_since(Instant::now()))
                }
            };
            match next {
                Ok(Order::Job(first)) => self.group(first, queue),
                Ok(Order::Compact(asker)) => self.compactor.ask(asker),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.sync_by.is_some_and(|at| at <= Instant::now()) {
                self.settle();
            }
            if self.compactor.is_underway() {
                self.compact();
            }
        }
        self.compactor.give_up(&StoreError::Closed);
        if self.sync_by.is_some() {
            self.settle();
        }
    }

    /// Runs a job and those that wait behind it, commits them as one, acknowledges them all.
    fn group(&mut self, first: Queued, queue: &Receiver<Order>) {
        if let Some(error) = self.stopped() {
            first.1.acknowledge(Err(error));
            return;
        }
        let records = Arc::clone(&self.records);
        let mut txn = Txn::new(&records);
        let mut durability = Durability::Relaxed;
        let mut performed = Vec::new();
        let mut next = Some(first);
        while let Some((wanted, mut job)) = next {
            if job.perform(&mut txn) {
                txn.keep();
            } else {
                txn.take_back();
            }
            durability = durability.max(wanted);
            performed.push(job);
            let (jobs, bytes) = self.limits;
            let full = performed.len() >= jobs || txn.bytes() >= bytes;
            next = if full { None } else { self.waiting(queue) };
        }
        let outcome = self.commit(txn, durability);
        for job in performed {
            job.acknowledge(outcome.clone());
        }
        self.after(&outcome);
    }

    /// The next job, if one waits.
    fn waiting(&mut self, queue: &Receiver<Order>) -> Option<Queued> {
        loop {
            match queue.try_recv().ok()? {
                Order::Job(queued) => return Some(queued),
                Order::Compact(asker) => self.compactor.ask(asker),
            }
        }
    }

    /// Does a slice of the compaction under way.
    fn compact(&mut self) {
        if let Some(error) = self.stopped() {
            self.compactor.give_up(&error);
            return;
        }
        if let Err(StoreError::Unknown { reason }) = self.compactor.slice(&self.space) {
            let _ = self.failed.set(Arc::clone(&reason));
            self.after(&Err(StoreError::Unknown { reason }));
        }
    }

    /// The answer to everything once a commit has failed.
    fn stopped(&self) -> Option<StoreError> {
        self.failed.get().map(|reason| StoreError::Failed { reason: Arc::clone(reason) })
    }

    /// Syncs relaxed commits.
    fn settle(&mut self) {
        let records = Arc::clone(&self.records);
        let outcome = self.commit(Txn::new(&records), Durability::Synced);
        if let Err(error) = &outcome {
            tracing::warn!(%error, "relaxed commits could not be synced yet");
            self.sync_by = self.failed.get().is_none().then(|| Instant::now() + self.relaxed_for);
        }
        self.after(&outcome);
    }

    fn commit(&mut self, txn: Txn<'_>, durability: Durability) -> Result<(), StoreError> {
        if let Some(error) = self.stopped() {
            return Err(error);
        }
        let bytes = txn.bytes();
        let writes = txn.into_writes();
        // A job that wrote nothing may still answer from a relaxed commit, which must be safe
        // before a synced answer is.
        let owed = durability == Durability::Synced && self.sync_by.is_some();
        if writes.is_empty() && !owed {
            return Ok(());
        }
        if let Err(full) = self.space.allows(bytes) {
            // A half-made copy is in the way of a write: it goes first.
            if !self.compactor.give_up(&full) {
                return Err(full);
            }
            self.space.allows(bytes)?;
        }
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner).begin()?;
        let next = Identity { commit: self.identity.commit + 1, ..self.identity };
        match self.records.commit(writes, next, durability) {
            Ok(reached) => {
                self.identity = next;
                self.compactor.committed(bytes);
                self.sync_by = match reached {
                    Durability::Synced => None,
                    Durability::Relaxed => {
                        self.sync_by.or_else(|| Some(Instant::now() + self.relaxed_for))
                    }
                };
                Ok(())
            }
            Err(StoreError::Unknown { reason }) => {
                let _ = self.failed.set(Arc::clone(&reason));
                Err(StoreError::Unknown { reason })
            }
            Err(error) => Err(error),
        }
    }

    /// What nobody has to wait for.
    fn after(&mut self, outcome: &Result<(), StoreError>) {
        match outcome {
            Ok(()) if self.sync_by.is_none() => {
                let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
                keeper.durable(self.identity.commit);
            }
            Err(error @ StoreError::Unknown { .. }) => {
                tracing::error!(%error, "a commit failed; the store takes no more writes");
                if let Some(hook) = self.on_failure.take() {
                    hook(error);
                }
            }
            _ => {}
        }
    }
}
