//! The plaintext that is sealed: one byte that says how, then the body (docs/protocol.md, "Body").
//!
//! `0`: the body as it is. `1`: the body as one zstd frame, where that is shorter. Nothing is
//! believed of a frame: at most one byte more than a body may have is ever decompressed.

use std::io::Read as _;

use tidings_wire::limits;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
/// Bodies up to this length are not compressed.
const COMPRESS_ABOVE: usize = 1 << 10;
/// zstd's default: the time is in the sealing and the disk.
const LEVEL: i32 = 3;

/// Why an opened plaintext is not a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    /// It says that it is packed in a way that a later release introduced.
    #[error("a body packed in way {0} needs a newer Tidings")]
    NeedsNewer(u8),
    /// It is empty, or its frame is not one.
    #[error("a packed body is damaged")]
    Damaged,
    /// It is larger than a body may be.
    #[error("a packed body is larger than {} bytes", limits::BLOB_BODY_SINGLE)]
    TooLarge,
}

/// Packs a body for sealing.
pub fn pack_body(body: &[u8]) -> Vec<u8> {
    if body.len() > COMPRESS_ABOVE
        && let Ok(frame) = zstd::bulk::compress(body, LEVEL)
        && frame.len() < body.len()
    {
        return [&[ZSTD], frame.as_slice()].concat();
    }
    [&[PLAIN], body].concat()
}

/// Unpacks what was opened.
///
/// # Errors
/// [`BodyProblem`].
pub fn unpack_body(packed: &[u8]) -> Result<Vec<u8>, BodyProblem> {
    match packed.split_first() {
        Some((&PLAIN, body)) if body.len() > limits::BLOB_BODY_SINGLE => Err(BodyProblem::TooLarge),
        Some((&PLAIN, body)) => Ok(body.to_vec()),
        Some((&ZSTD, frame)) => decompress(frame),
        Some((&way, _)) => Err(BodyProblem::NeedsNewer(way)),
        None => Err(BodyProblem::Damaged),
    }
}

fn decompress(frame: &[u8]) -> Result<Vec<u8>, BodyProblem> {
    let mut decoder =
        zstd::stream::read::Decoder::with_buffer(frame).map_err(|_| BodyProblem::Damaged)?;
    // A window larger than a body can need would be allocated for nothing.
    decoder.window_log_max(WINDOW_LOG).map_err(|_| BodyProblem::Damaged)?;
    let limit = limits::BLOB_BODY_SINGLE;
    let mut body = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder.single_frame().take(most).read_to_end(&mut body).map_err(|_| BodyProblem::Damaged)?;
    if body.len() > limit { Err(BodyProblem::TooLarge) } else { Ok(body) }
}

/// 2^20 bytes: more than any body has.
const WINDOW_LOG: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back() {
        for len in [0, 1, 1024, 1025, 5_000, limits::BLOB_BODY_SINGLE] {
            let body: Vec<u8> = (0..len).map(|at| (at / 7 % 251) as u8).collect();
            let packed = pack_body(&body);
            assert_eq!(packed[0], u8::from(len > 1024), "{len}");
            assert!(packed.len() <= len + 1);
            assert_eq!(unpack_body(&packed).unwrap(), body);
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut body = vec![0; 4096];
        getrandom::fill(&mut body).unwrap();
        let packed = pack_body(&body);
        assert_eq!(packed[0], PLAIN);
        assert_eq!(unpack_body(&packed).unwrap(), body);
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        use std::io::Write as _;

        let bomb = |window: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(vec![ZSTD], LEVEL).unwrap();
            encoder.window_log(window).unwrap();
            for _ in 0..64 {
                encoder.write_all(&[0; 1 << 20]).unwrap();
            }
            encoder.finish().unwrap()
        };
        let packed = bomb(18);
        assert!(packed.len() < 16 << 10);
        assert_eq!(unpack_body(&packed), Err(BodyProblem::TooLarge));
        // One that wants a large window is refused before that is allocated.
        assert_eq!(unpack_body(&bomb(25)), Err(BodyProblem::Damaged));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(unpack_body(&[]), Err(BodyProblem::Damaged));
        assert_eq!(unpack_body(&[2, 0]), Err(BodyProblem::NeedsNewer(2)));
        assert_eq!(unpack_body(&[ZSTD]), Err(BodyProblem::Damaged));
        assert_eq!(unpack_body(&[ZSTD, 1, 2, 3]), Err(BodyProblem::Damaged));
        let mut cut = pack_body(&[7; 9_000]);
        cut.pop();
        assert_eq!(unpack_body(&cut), Err(BodyProblem::Damaged));
    }
}
