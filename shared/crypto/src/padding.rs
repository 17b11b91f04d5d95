//! Padding to Padmé lengths (Nikitin and others, *Reducing Metadata Leakage from Encrypted Files
//! and Communication with PURBs*, 2019): at most 12 % more, and only O(log log n) bits of the
//! length remain.
//!
//! Padded = body's length as `u32`, body, zeros up to the Padmé length of both.

use zeroize::Zeroizing;

/// Length of what stands before the body, in bytes.
const PREFIX: usize = 4;

/// The Padmé length of at least `len`.
pub(crate) fn padme(len: usize) -> usize {
    let Some(exponent) = len.checked_ilog2().filter(|exponent| *exponent > 0) else { return len };
    let kept_bits = exponent.ilog2() + 1;
    let mask = (1usize << (exponent - kept_bits.min(exponent))) - 1;
    (len + mask) & !mask
}

/// Pads a body; none when it is longer than `u32` can say.
pub(crate) fn pad(body: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let len = u32::try_from(body.len()).ok()?;
    let padded_len = padme(PREFIX + body.len());
    let mut padded = Zeroizing::new(Vec::with_capacity(padded_len));
    padded.extend_from_slice(&len.to_be_bytes());
    padded.extend_from_slice(body);
    padded.resize(padded_len, 0);
    Some(padded)
}

/// Takes the padding off, if it is exactly what [`pad`] makes.
pub(crate) fn unpad(mut padded: Zeroizing<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
    let (prefix, rest) = padded.split_first_chunk::<PREFIX>()?;
    let len = usize::try_from(u32::from_be_bytes(*prefix)).ok()?;
    let (_, zeros) = rest.split_at_checked(len)?;
    if padded.len() != padme(PREFIX + len) || zeros.iter().any(|byte| *byte != 0) {
        return None;
    }
    padded.copy_within(PREFIX..PREFIX + len, 0);
    padded.truncate(len);
    Some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padme_lengths_are_those_of_the_paper() {
        // L, padded: computed by the paper's definition.
        let known = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (8, 8),
            (9, 10),
            (15, 16),
            (16, 16),
            (17, 18),
            (100, 104),
            (1_000, 1_024),
            (1_025, 1_088),
            (10_000, 10_240),
            (100_000, 100_352),
            (1_000_000, 1_015_808),
        ];
        for (len, padded) in known {
            assert_eq!(padme(len), padded, "padme({len})");
        }
    }

    #[test]
    fn padding_costs_at_most_an_eighth() {
        for len in 4..20_000 {
            let padded = padme(len);
            assert!(padded >= len && padded <= len + len / 8 + 1, "padme({len}) = {padded}");
            assert_eq!(padme(padded), padded);
        }
    }

    #[test]
    fn only_exact_padding_comes_off() {
        for len in [0, 1, 3, 200, 4_097] {
            let body = vec![7; len];
            let padded = pad(&body).unwrap();
            assert_eq!(unpad(padded.clone()).unwrap().as_slice(), body);
            let mut longer = padded.clone();
            longer.push(0);
            assert!(unpad(longer).is_none());
            let mut wrong_len = padded.clone();
            wrong_len[3] ^= 1;
            assert!(unpad(wrong_len).is_none_or(|other| other.as_slice() != body));
        }
        let mut dirty = pad(&[7; 5]).unwrap();
        *dirty.last_mut().unwrap() = 1;
        assert!(unpad(dirty).is_none());
        assert!(unpad(Zeroizing::new(vec![255; 9])).is_none());
    }
}
