//! The open streams of a share of the accounts: a table of slots, and a list for each channel.
//!
//! Everything here happens under the shard's lock and waits for nothing. A stream whose reader
//! turns out to be gone is taken out on the spot.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;

use bytes::Bytes;
use mio::{Registry, Token};
use slab::Slab;
use smallvec::SmallVec;
use tidings_proof::Replica;
use tidings_wire::{AccountId, DeviceId};

use super::frames;
use super::listener::{ALL, Channel, End, Listener};
use super::sink::Outlet;
use super::slot::{Bell, Slot};
use super::{Settings, SubscribeError};
use crate::clock::Millis;

/// Indices of slots. Most channels have one or two listeners, who need no allocation.
type List = SmallVec<[usize; 2]>;

/// Which stream; one that took the slot later has another id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) index: usize,
    pub(super) id: u64,
}

/// The streams of a shard.
pub(super) struct Streams {
    settings: Settings,
    registry: Registry,
    slots: Slab<Slot>,
    /// Who hears a channel of an account, as indices of slots.
    channels: BTreeMap<(AccountId, Channel), List>,
    /// How many streams an account has.
    accounts: HashMap<AccountId, usize>,
    /// When tokens end, in whole seconds, and whose.
    expiries: BTreeMap<Millis, Vec<usize>>,
    /// The name of the channel of all.
    all: Channel,
    next: u64,
    closing: bool,
}

impl Streams {
    pub(super) fn new(settings: Settings, registry: Registry) -> Self {
        Self {
            settings,
            registry,
            slots: Slab::new(),
            channels: BTreeMap::new(),
            accounts: HashMap::new(),
            expiries: BTreeMap::new(),
            all: ALL.into(),
            next: 0,
            closing: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// No stream has an index as large.
    pub(super) fn bound(&self) -> usize {
        self.slots.capacity()
    }

    /// When the first token ends; none without a stream.
    pub(super) fn first_expiry(&self) -> Option<Millis> {
        self.expiries.first_key_value().map(|(at, _)| *at)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Opens a stream without a sink; what it should be told from here on is kept for it.
    pub(super) fn open(&mut self, mut listener: Listener) -> Result<Key, SubscribeError> {
        if self.closing {
            return Err(SubscribeError::Closing);
        }
        let Settings { per_account, per_channel, .. } = self.settings;
        if self.accounts.get(&listener.account).is_some_and(|count| *count >= per_account) {
            return Err(SubscribeError::AccountLimit(per_account));
        }
        let entry = self.channels.entry((listener.account, listener.channel.clone()));
        if let Entry::Occupied(entry) = &entry {
            if entry.get().len() >= per_channel {
                return Err(SubscribeError::AppLimit(per_channel));
            }
            // One name in memory for all who listen.
            listener.channel = entry.key().1.clone();
        }
        let (list, vacant) = (entry.or_default(), self.slots.vacant_entry());
        let key = Key { index: vacant.key(), id: self.next };
        self.next += 1;
        *self.accounts.entry(listener.account).or_default() += 1;
        self.expiries.entry(listener.expires).or_default().push(key.index);
        vacant.insert(Slot::new(key.id, listener, list.len()));
        list.push(key.index);
        Ok(key)
    }

    /// Gives a stream its sink and its first bytes.
    pub(super) fn attach(&mut self, key: Key, mut sink: Outlet, first: &Bytes) {
        let Some(slot) = self.slots.get_mut(key.index).filter(|slot| slot.id == key.id) else {
            return;
        };
        if let Some(end) = slot.end {
            if sink.send(first).is_ok() {
                sink.bye(&frames::ending(end, self.settings.closing_retry));
            }
            return self.remove(key.index);
        }
        let begun = slot.begin(sink, first, bell(&self.registry, key.index));
        self.check(key.index, begun);
    }

    /// Tells everybody on a channel but the pusher that something changed.
    pub(super) fn publish(
        &mut self,
        account: AccountId,
        channel: &Channel,
        pusher: Option<Replica>,
    ) {
        for listened in [channel.clone(), self.all.clone()] {
            let frame = frames::changed(&listened, channel);
            let Some(list) = self.channels.get(&(account, listened)) else { continue };
            let mut gone = Vec::new();
            for &index in list {
                let Some(slot) = self.slots.get_mut(index) else { continue };
                if !slot.listener.is(pusher)
                    && slot.tell(channel, &frame, bell(&self.registry, index)).is_err()
                {
                    gone.push(index);
                }
            }
            gone.into_iter().for_each(|index| self.remove(index));
        }
    }

    /// Looks at a sink that the system told of. A word that was meant for a stream which had this
    /// slot before does no harm.
    pub(super) fn look(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let looked = slot.look(bell(&self.registry, index));
        self.check(index, looked);
    }

    /// Goes on with a stream whose sink has room again.
    pub(super) fn resume(&mut self, key: Key) {
        let slot = self.slots.get_mut(key.index).filter(|slot| slot.id == key.id);
        let Some(slot) = slot else { return };
        let resumed = slot.resume(bell(&self.registry, key.index));
        self.check(key.index, resumed);
    }

    /// Sends a keep-alive to a stream, if there is one.
    pub(super) fn keep_alive(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let kept = slot.keep_alive(bell(&self.registry, index));
        self.check(index, kept);
    }

    /// Ends the streams whose tokens have ended.
    pub(super) fn expire(&mut self, now: Millis) {
        while self.first_expiry().is_some_and(|first| first <= now)
            && let Some((_, ended)) = self.expiries.pop_first()
        {
            ended.into_iter().for_each(|index| self.end(index, End::Expired));
        }
    }

    /// Ends the streams of devices of an account.
    pub(super) fn end_devices(
        &mut self,
        account: AccountId,
        devices: impl Fn(DeviceId) -> bool,
        end: End,
    ) {
        let of = |index: &usize| {
            self.slots.get(*index).is_some_and(|slot| devices(slot.listener.device))
        };
        let lists = self.channels.range((account, "".into())..);
        let ended: Vec<_> = lists
            .take_while(|((owner, _), _)| *owner == account)
            .flat_map(|(_, list)| list.iter().copied().filter(&of))
            .collect();
        ended.into_iter().for_each(|index| self.end(index, end));
    }

    /// Ends all streams and opens no more.
    pub(super) fn close(&mut self) {
        self.closing = true;
        (0..self.bound()).for_each(|index| self.end(index, End::Closing));
    }

    /// Takes a stream out that its owner gave up.
    pub(super) fn forget(&mut self, key: Key) {
        if self.slots.get(key.index).is_some_and(|slot| slot.id == key.id) {
            self.remove(key.index);
        }
    }

    fn end(&mut self, index: usize, end: End) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some(sink) = &mut slot.sink else {
            slot.end.get_or_insert(end);
            return;
        };
        sink.bye(&frames::ending(end, self.settings.closing_retry));
        self.remove(index);
    }

    fn check(&mut self, index: usize, outcome: io::Result<()>) {
        if let Err(reason) = outcome {
            tracing::debug!(%reason, "a stream ended");
            self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) {
        let Some(slot) = self.slots.try_remove(index) else { return };
        let Listener { account, channel, expires, .. } = slot.listener;
        if let Entry::Occupied(mut entry) = self.expiries.entry(expires) {
            let list = entry.get_mut();
            if let Some(at) = list.iter().position(|of| *of == index) {
                list.swap_remove(at);
            }
            if list.is_empty() {
                entry.remove();
            }
        }
        if let Some(count) = self.accounts.get_mut(&account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.accounts.remove(&account);
            }
        }
        let Entry::Occupied(mut entry) = self.channels.entry((account, channel)) else { return };
        let list = entry.get_mut();
        if slot.place < list.len() {
            list.swap_remove(slot.place);
        }
        let moved = list.get(slot.place).and_then(|moved| self.slots.get_mut(*moved));
        if let Some(moved) = moved {
            moved.place = slot.place;
        }
        if list.is_empty() {
            entry.remove();
        }
    }
}

fn bell(registry: &Registry, index: usize) -> Bell<'_> {
    Bell { registry, token: Token(index) }
}
