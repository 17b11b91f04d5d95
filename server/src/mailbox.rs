//! Pairing mailboxes: two sides write numbered messages under a short number for ten minutes.
//!
//! They are in memory: a restart ends open pairings, which people then start anew. Everything is
//! bounded: mailboxes, messages, bytes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidings_wire::Nameplate;
use tidings_wire::pairing::Side;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Most messages of one side.
pub const MESSAGES: usize = 8;

/// Most bytes in all mailboxes together.
const BYTES: usize = 64 << 20;

/// Why a mailbox does not take or give something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// It never was, or its time is over.
    #[error("there is no such pairing code on this server, or its time is over")]
    NotFound,
    /// Another message stands at that index.
    #[error("the place is taken by another message")]
    Taken,
    /// The index would leave a hole, or is past the last place.
    #[error("messages are numbered from 0 without holes, at most {MESSAGES}")]
    BadIndex,
    /// There are as many mailboxes, or bytes in them, as there may be.
    #[error("too many pairings are open on this server")]
    Full,
}

/// The open mailboxes.
#[derive(Debug)]
pub struct Mailboxes {
    life: Duration,
    capacity: usize,
    open: Mutex<BTreeMap<Nameplate, Arc<Mailbox>>>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Mailbox {
    end: Instant,
    sides: Mutex<[Vec<Vec<u8>>; 2]>,
    written: Notify,
    /// Bytes of all mailboxes; this one's go with it.
    bytes: Arc<AtomicUsize>,
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let sides = self.sides.get_mut().unwrap_or_else(PoisonError::into_inner);
        let own = sides.iter().flatten().map(Vec::len).sum();
        self.bytes.fetch_sub(own, Ordering::Relaxed);
    }
}

impl Mailboxes {
    /// At most `capacity` mailboxes, each for `life`.
    pub fn new(life: Duration, capacity: usize) -> Self {
        Self { life, capacity, open: Mutex::default(), bytes: Arc::default() }
    }

    /// Opens one under a number that nobody can foresee. `random` is any random number.
    ///
    /// # Errors
    /// [`MailboxError::Full`].
    pub fn open(&self, random: u32, now: Instant) -> Result<Nameplate, MailboxError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, mailbox| now < mailbox.end);
        if open.len() >= self.capacity {
            return Err(MailboxError::Full);
        }
        // Four digits while few are open: short to type, and the next free one is near.
        let first = 1_000 + random % 9_000;
        let free = (0..9_000)
            .map(|step| Nameplate(1_000 + (first - 1_000 + step) % 9_000))
            .find(|nameplate| !open.contains_key(nameplate))
            .ok_or(MailboxError::Full)?;
        let mailbox = Mailbox {
            end: now + self.life,
            sides: Mutex::default(),
            written: Notify::new(),
            bytes: self.bytes.clone(),
        };
        open.insert(free, Arc::new(mailbox));
        Ok(free)
    }

    /// Writes a message. The same message again is fine.
    ///
    /// # Errors
    /// [`MailboxError`].
    pub fn put(
        &self,
        nameplate: Nameplate,
        side: Side,
        index: u32,
        message: Vec<u8>,
        now: Instant,
    ) -> Result<(), MailboxError> {
        let mailbox = self.find(nameplate, now)?;
        let mut sides = mailbox.sides.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = of(&mut sides, side);
        let index = usize::try_from(index).map_err(|_| MailboxError::BadIndex)?;
        match messages.get(index) {
            Some(there) if *there == message => return Ok(()),
            Some(_) => return Err(MailboxError::Taken),
            None if index == messages.len() && index < MESSAGES => {
                let size = message.len();
                if self.bytes.fetch_add(size, Ordering::Relaxed) + size > BYTES {
                    self.bytes.fetch_sub(size, Ordering::Relaxed);
                    return Err(MailboxError::Full);
                }
                messages.push(message);
            }
            None => return Err(MailboxError::BadIndex),
        }
        drop(sides);
        mailbox.written.notify_waiters();
        Ok(())
    }

    /// The messages of a side from an index on, after waiting for the first of them until `until`.
    ///
    /// # Errors
    /// [`MailboxError::NotFound`].
    pub async fn read(
        &self,
        nameplate: Nameplate,
        side: Side,
        from: u32,
        until: Instant,
    ) -> Result<Vec<Vec<u8>>, MailboxError> {
        let mailbox = self.find(nameplate, Instant::now())?;
        let from = usize::try_from(from).map_err(|_| MailboxError::BadIndex)?;
        loop {
            let written = mailbox.written.notified();
            tokio::pin!(written);
            // Registers before looking, so that a message in between is not missed.
            written.as_mut().enable();
            let messages = {
                let mut sides = mailbox.sides.lock().unwrap_or_else(PoisonError::into_inner);
                of(&mut sides, side).get(from..).unwrap_or_default().to_vec()
            };
            let end = until.min(mailbox.end);
            if !messages.is_empty() || Instant::now() >= end {
                return Ok(messages);
            }
            let _ = tokio::time::timeout_at(end, written).await;
        }
    }

    fn find(&self, nameplate: Nameplate, now: Instant) -> Result<Arc<Mailbox>, MailboxError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mailbox = open.get(&nameplate).filter(|mailbox| now < mailbox.end);
        mailbox.cloned().ok_or(MailboxError::NotFound)
    }
}

fn of(sides: &mut [Vec<Vec<u8>>; 2], side: Side) -> &mut Vec<Vec<u8>> {
    let [new, old] = sides;
    match side {
        Side::New => new,
        Side::Old => old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_are_numbered_and_final() {
        let boxes = Mailboxes::new(Duration::from_secs(600), 10);
        let now = Instant::now();
        let n = boxes.open(7, now).unwrap();
        boxes.put(n, Side::New, 0, b"a".to_vec(), now).unwrap();
        boxes.put(n, Side::New, 0, b"a".to_vec(), now).unwrap();
        assert_eq!(boxes.put(n, Side::New, 0, b"b".to_vec(), now), Err(MailboxError::Taken));
        assert_eq!(boxes.put(n, Side::New, 2, b"b".to_vec(), now), Err(MailboxError::BadIndex));
        boxes.put(n, Side::Old, 0, b"x".to_vec(), now).unwrap();
        assert_eq!(boxes.read(n, Side::New, 0, now).await.unwrap(), [b"a".to_vec()]);
        assert_eq!(boxes.read(n, Side::New, 1, now).await.unwrap(), Vec::<Vec<u8>>::new());
        let later = now + Duration::from_secs(600);
        assert_eq!(boxes.put(n, Side::Old, 1, vec![], later), Err(MailboxError::NotFound));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_for_its_message() {
        let boxes = Mailboxes::new(Duration::from_secs(600), 10);
        let now = Instant::now();
        let n = boxes.open(7, now).unwrap();
        let until = now + Duration::from_secs(30);
        let (messages, ()) = tokio::join!(boxes.read(n, Side::Old, 0, until), async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            boxes.put(n, Side::Old, 0, b"late".to_vec(), Instant::now()).unwrap();
        });
        assert_eq!(messages.unwrap(), [b"late".to_vec()]);
        assert_eq!(now.elapsed(), Duration::from_secs(5));
        assert_eq!(boxes.read(n, Side::New, 0, until).await.unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(now.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many() {
        let boxes = Mailboxes::new(Duration::from_secs(600), 2);
        let now = Instant::now();
        let a = boxes.open(7, now).unwrap();
        let b = boxes.open(7, now).unwrap();
        assert_ne!(a, b);
        assert_eq!(boxes.open(7, now), Err(MailboxError::Full));
        boxes.open(7, now + Duration::from_secs(601)).unwrap();
    }
}
