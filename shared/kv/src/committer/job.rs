//! A write job: the caller's closure, its result, and how to hand that back.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{CommitError, StoreError, Txn};

/// A job without its types.
pub(crate) trait Work: Send {
    /// Runs the closure; false if its writes must be taken back.
    fn perform(&mut self, txn: &mut Txn<'_>) -> bool;

    /// Hands the result to whoever waits, once the commit has this outcome.
    fn acknowledge(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A closure to run, and one to tell.
pub(crate) struct Job<R, E, J, A> {
    job: Option<J>,
    ack: A,
    result: Option<Result<R, CommitError<E>>>,
}

impl<R, E, J, A> Job<R, E, J, A>
where
    R: Send,
    E: Send,
    J: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send,
    A: FnOnce(Result<R, CommitError<E>>) + Send,
{
    pub(crate) fn new(job: J, ack: A) -> Self {
        Self { job: Some(job), ack, result: None }
    }
}

impl<R, E, J, A> Work for Job<R, E, J, A>
where
    R: Send,
    E: Send,
    J: FnOnce(&mut Txn<'_>) -> Result<R, E> + Send,
    A: FnOnce(Result<R, CommitError<E>>) + Send,
{
    fn perform(&mut self, txn: &mut Txn<'_>) -> bool {
        let Some(job) = self.job.take() else { return false };
        // The transaction is taken back as a whole after a panic, so nothing half done is seen.
        let result = match catch_unwind(AssertUnwindSafe(|| job(txn))) {
            Ok(result) => result.map_err(CommitError::Job),
            Err(payload) => Err(CommitError::Panicked(message(payload.as_ref()))),
        };
        let kept = result.is_ok();
        self.result = Some(result);
        kept
    }

    fn acknowledge(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { ack, result, .. } = *self;
        // A refusal, too, may rest on what the failed commit would have stored.
        let result = match (outcome, result) {
            (Ok(()), Some(result)) => result,
            (Err(error), _) => Err(CommitError::Store(error)),
            (Ok(()), None) => Err(CommitError::Store(StoreError::Closed)),
        };
        if catch_unwind(AssertUnwindSafe(|| ack(result))).is_err() {
            tracing::error!("an acknowledgement panicked");
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}
