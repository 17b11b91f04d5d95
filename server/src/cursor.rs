//! Cursors: where a reader stands, in bytes that only the server reads.
//!
//! A cursor names the life and the start of the store that it was given by, so that a store which
//! was put back to an earlier state is noticed ([`Timeline::follow`]), and carries a keyed hash
//! that binds it to its caller, app and filter.

use subtle::ConstantTimeEq as _;
use tidings_proof::{Reader, Writer};
use tidings_wire::{Generation, Hash, Position, StartId};

/// Where a reader stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Life of the store.
    pub generation: Generation,
    /// The start that gave the cursor.
    pub start: StartId,
    /// The two starts before, newest first; zeros where there were none.
    pub before: [StartId; 2],
    /// Everything at or below was given.
    pub position: Position,
    /// Inside a run at that position: its hash, and the parts given.
    pub run: Option<(Hash, u32)>,
}

/// What a cursor counts for.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The server's key for cursors.
    pub key: &'a [u8; 32],
    /// Caller, app and filter in one unambiguous encoding.
    pub context: &'a [u8],
}

const FORMAT: u8 = 1;
const MAC: usize = 16;

impl Cursor {
    /// The bytes of the cursor: 117 at most.
    pub fn seal(&self, binding: Binding<'_>) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(FORMAT).raw(&self.generation.0).raw(&self.start.0);
        writer.raw(&self.before[0].0).raw(&self.before[1].0).u64(self.position.0);
        if let Some((hash, part)) = &self.run {
            writer.raw(&hash.0).u32(*part);
        }
        let mac = binding.mac(writer.as_bytes());
        writer.raw(&mac);
        writer.finish()
    }

    /// Reads a cursor; `None` when it is not one of this server for this caller and filter.
    pub fn open(bytes: &[u8], binding: Binding<'_>) -> Option<Self> {
        let (body, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        if !bool::from(binding.mac(body).as_slice().ct_eq(mac)) {
            return None;
        }
        let mut reader = Reader::new(body);
        let read = |reader: &mut Reader<'_>| -> Result<Self, tidings_proof::DecodeError> {
            if reader.u8("format")? != FORMAT {
                return Err(tidings_proof::DecodeError::Invalid("cursor format"));
            }
            let generation = Generation(reader.array("generation")?);
            let start = StartId(reader.array("start")?);
            let before = [StartId(reader.array("start")?), StartId(reader.array("start")?)];
            let position = Position(reader.u64("position")?);
            let run = match reader.remaining() {
                0 => None,
                _ => Some((reader.hash()?, reader.u32("part")?)),
            };
            Ok(Self { generation, start, before, position, run })
        };
        let cursor = read(&mut reader).ok()?;
        reader.finish().ok()?;
        Some(cursor)
    }
}

impl Binding<'_> {
    fn mac(&self, body: &[u8]) -> [u8; MAC] {
        let mut hasher = blake3::Hasher::new_keyed(self.key);
        hasher.update(&u64::try_from(body.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(body).update(self.context);
        let mut mac = [0; MAC];
        hasher.finalize_xof().fill(&mut mac);
        mac
    }
}

/// The lives and starts of a store.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// This life.
    pub generation: Generation,
    /// Every start of it with the head at that moment, oldest first, the running one last. Empty
    /// where starts are not recorded because several processes share the store.
    pub starts: Vec<(StartId, Position)>,
}

/// Whether a cursor can be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Go on from here.
    On(Position),
    /// The store lost what the cursor speaks of; up to here both agree.
    Reset(Position),
}

impl Timeline {
    /// The running start; zeros where starts are not recorded.
    pub fn start(&self) -> StartId {
        self.starts.last().map_or(StartId([0; 8]), |(id, _)| *id)
    }

    /// The two starts before the running one.
    pub fn before(&self) -> [StartId; 2] {
        let mut earlier = self.starts.iter().rev().skip(1).map(|(id, _)| *id);
        [(); 2].map(|()| earlier.next().unwrap_or(StartId([0; 8])))
    }

    /// A cursor that stands at a position now.
    pub fn cursor(&self, position: Position) -> Cursor {
        let (start, before) = (self.start(), self.before());
        Cursor { generation: self.generation, start, before, position, run: None }
    }

    /// Judges a cursor. A store that was put back shows itself: the cursor's start is unknown, or
    /// it stands beyond the head that the next start noted.
    pub fn follow(&self, cursor: &Cursor) -> Follow {
        if cursor.generation != self.generation {
            return Follow::Reset(Position(0));
        }
        if self.starts.is_empty() {
            return Follow::On(cursor.position);
        }
        for (age, start) in std::iter::once(&cursor.start).chain(&cursor.before).enumerate() {
            let Some(at) = self.starts.iter().position(|(id, _)| id == start) else { continue };
            let noted = self.starts.get(at + 1).map(|(_, head)| *head);
            return match noted {
                // The running start gave it.
                None if age == 0 => Follow::On(cursor.position),
                // A start that came after this one is unknown here, and nothing came after it.
                None => Follow::Reset(Position(0)),
                Some(head) if age == 0 && cursor.position <= head => Follow::On(cursor.position),
                Some(head) => Follow::Reset(head.min(cursor.position)),
            };
        }
        Follow::Reset(Position(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> StartId {
        StartId([byte; 8])
    }

    fn timeline(starts: &[(u8, u64)]) -> Timeline {
        let starts = starts.iter().map(|(byte, head)| (id(*byte), Position(*head))).collect();
        Timeline { generation: Generation([1; 8]), starts }
    }

    #[test]
    fn a_cursor_counts_only_for_its_caller_and_filter() {
        let cursor = timeline(&[(1, 0)]).cursor(Position(42));
        let key = [9; 32];
        let sealed = cursor.seal(Binding { key: &key, context: b"a" });
        assert!(sealed.len() <= tidings_wire::limits::CURSOR);
        assert_eq!(
            Cursor::open(&sealed, Binding { key: &key, context: b"a" }),
            Some(cursor.clone())
        );
        assert_eq!(Cursor::open(&sealed, Binding { key: &key, context: b"b" }), None);
        assert_eq!(Cursor::open(&sealed, Binding { key: &[8; 32], context: b"a" }), None);
        for at in 0..sealed.len() {
            let mut wrong = sealed.clone();
            wrong[at] ^= 1;
            assert_eq!(Cursor::open(&wrong, Binding { key: &key, context: b"a" }), None);
            assert_eq!(Cursor::open(&sealed[..at], Binding { key: &key, context: b"a" }), None);
        }
        let inside = Cursor { run: Some((Hash([3; 32]), 7)), ..cursor };
        let sealed = inside.seal(Binding { key: &key, context: b"" });
        assert!(sealed.len() <= tidings_wire::limits::CURSOR);
        assert_eq!(Cursor::open(&sealed, Binding { key: &key, context: b"" }), Some(inside));
    }

    #[test]
    fn a_store_that_was_put_back_is_noticed() {
        // First life: start 1 at 0, then a copy at 20, on to 50.
        let at_50 = timeline(&[(1, 0)]).cursor(Position(50));
        let at_10 = timeline(&[(1, 0)]).cursor(Position(10));
        let put_back = timeline(&[(1, 0), (2, 20)]);
        assert_eq!(put_back.follow(&at_50), Follow::Reset(Position(20)));
        assert_eq!(put_back.follow(&at_10), Follow::On(Position(10)));

        // Copied while it was down, started again as 3 and gone on to 50, then put back.
        let at_50 = timeline(&[(1, 0), (3, 20)]).cursor(Position(50));
        let put_back = timeline(&[(1, 0), (4, 20)]);
        assert_eq!(put_back.follow(&at_50), Follow::Reset(Position(20)));

        // An honest restart follows.
        let at_50 = timeline(&[(1, 0)]).cursor(Position(50));
        assert_eq!(timeline(&[(1, 0), (2, 50)]).follow(&at_50), Follow::On(Position(50)));
        let own = timeline(&[(1, 0), (2, 50)]);
        assert_eq!(own.follow(&own.cursor(Position(60))), Follow::On(Position(60)));
        // Nothing in common that is known: from the beginning.
        let stranger = timeline(&[(8, 0), (9, 0)]).cursor(Position(5));
        assert_eq!(own.follow(&stranger), Follow::Reset(Position(0)));
        let mut other_life = own.cursor(Position(5));
        other_life.generation = Generation([2; 8]);
        assert_eq!(own.follow(&other_life), Follow::Reset(Position(0)));
    }
}
