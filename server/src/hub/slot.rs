//! One open stream: who listens, through what, and what it still has to be told.

use std::io;

use bytes::Bytes;
use mio::{Registry, Token};
use tidings_wire::sse::KEEPALIVE;

use super::frames;
use super::listener::{Channel, End, Listener};
use super::sink::{Outlet, Sent, Wake};

/// Keep-alives that a reader may miss in a row while it takes no bytes; at the last it is cut.
const MISSED: u8 = 2;

/// A stream in the table. It has no task and no timer; whoever publishes writes.
pub(super) struct Slot {
    /// Unlike that of any stream that was in this slot before.
    pub(super) id: u64,
    pub(super) listener: Listener,
    /// Where it stands in its channel's list.
    pub(super) place: usize,
    /// None until the answer's socket or body is there.
    pub(super) sink: Option<Outlet>,
    /// Told as soon as there is a sink.
    pub(super) end: Option<End>,
    flow: Flow,
    /// Channels that changed while nothing could be sent, each once.
    dirty: Vec<Channel>,
}

/// Whether the reader takes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    /// The sink holds something back, for so many keep-alives by now.
    Held {
        missed: u8,
    },
}

/// How a sink asks to be woken.
#[derive(Clone, Copy)]
pub(super) struct Bell<'a> {
    pub(super) registry: &'a Registry,
    pub(super) token: Token,
}

impl Slot {
    pub(super) fn new(id: u64, listener: Listener, place: usize) -> Self {
        Self { id, listener, place, sink: None, end: None, flow: Flow::Open, dirty: Vec::new() }
    }

    /// Gives the stream its sink, the first bytes, and what came up meanwhile.
    pub(super) fn begin(&mut self, sink: Outlet, first: &Bytes, bell: Bell<'_>) -> io::Result<()> {
        let sink = self.sink.insert(sink);
        sink.arm(bell.registry, bell.token, Wake::Reader)?;
        self.send(first, bell)?;
        self.catch_up(bell)
    }

    /// Says that a channel changed, now or when there is room.
    pub(super) fn tell(
        &mut self,
        channel: &Channel,
        frame: &Bytes,
        bell: Bell<'_>,
    ) -> io::Result<()> {
        if self.sink.is_some() && self.flow == Flow::Open {
            return self.send(frame, bell);
        }
        if !self.dirty.contains(channel) {
            self.dirty.push(channel.clone());
        }
        Ok(())
    }

    /// Sends a keep-alive, or counts one that could not be sent.
    pub(super) fn keep_alive(&mut self, bell: Bell<'_>) -> io::Result<()> {
        match &mut self.flow {
            Flow::Held { missed } => {
                *missed += 1;
                if *missed >= MISSED { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
            }
            Flow::Open => self.send(&Bytes::from_static(KEEPALIVE), bell),
        }
    }

    /// Looks at the sink after the system said that something is with it.
    pub(super) fn look(&mut self, bell: Bell<'_>) -> io::Result<()> {
        if let Some(sink) = &mut self.sink {
            sink.peer()?;
        }
        self.resume(bell)
    }

    /// Goes on with what was held, if there is room now.
    pub(super) fn resume(&mut self, bell: Bell<'_>) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if self.flow == Flow::Open || sink.flush()? == Sent::Held {
            return Ok(());
        }
        self.flow = Flow::Open;
        sink.arm(bell.registry, bell.token, Wake::Reader)?;
        self.catch_up(bell)
    }

    fn catch_up(&mut self, bell: Bell<'_>) -> io::Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty).into_iter();
        while self.flow == Flow::Open
            && let Some(channel) = dirty.next()
        {
            self.send(&frames::changed(&self.listener.channel, &channel), bell)?;
        }
        self.dirty.extend(dirty);
        Ok(())
    }

    fn send(&mut self, frame: &Bytes, bell: Bell<'_>) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if sink.send(frame)? == Sent::Held {
            self.flow = Flow::Held { missed: 0 };
            sink.arm(bell.registry, bell.token, Wake::Room)?;
        }
        Ok(())
    }
}
