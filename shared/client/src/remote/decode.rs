//! Decoding answers of a server that may be hostile.
//!
//! A few bytes of an encoded list can become many in memory, so the number of elements is bounded
//! before anything is allocated for them.

use minicbor::{Decoder, decode::Decode};
use serde::de::DeserializeOwned;

use super::ClientError;
use super::call::clip;

/// Most data items of a CBOR answer. A page has about ten per blob and per manifest.
const CBOR_ITEMS: usize = 1 << 19;
/// Most commas of a JSON answer, which bound its elements.
const JSON_COMMAS: usize = 1 << 18;

pub(super) fn cbor<T>(bytes: &[u8]) -> Result<T, ClientError>
where
    T: for<'b> Decode<'b, ()>,
{
    let protocol = |error: minicbor::decode::Error| ClientError::Protocol(clip(&error.to_string()));
    let count = count_items(bytes).ok_or_else(|| ClientError::Protocol("it is cut".to_owned()))?;
    if count > CBOR_ITEMS {
        return Err(ClientError::Protocol("it has too many items".to_owned()));
    }
    let mut decoder = Decoder::new(bytes);
    let value = decoder.decode().map_err(protocol)?;
    if decoder.position() != bytes.len() {
        return Err(ClientError::Protocol("bytes follow its end".to_owned()));
    }
    Ok(value)
}

/// How many data items there are, of any nesting; `None` when the bytes end inside one.
fn count_items(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let mut count = 0;
    while let Some((&first, tail)) = rest.split_first() {
        let (major, info) = (first >> 5, first & 0x1f);
        let width = match info {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => 0,
        };
        let (argument, tail) = tail.split_at_checked(width)?;
        let is_string = matches!(major, 2 | 3) && info != 31;
        let length = if !is_string {
            0
        } else if width == 0 {
            usize::from(info)
        } else {
            let number = argument.iter().fold(0_u64, |n, &byte| (n << 8) | u64::from(byte));
            usize::try_from(number).ok()?
        };
        rest = tail.get(length..)?;
        count += 1;
    }
    Some(count)
}

pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ClientError> {
    if bytes.iter().filter(|&&byte| byte == b',').count() > JSON_COMMAS {
        return Err(ClientError::Protocol("it has too many elements".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| ClientError::Protocol(clip(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_end_is_refused() {
        assert_eq!(cbor::<u8>(&[5]).unwrap(), 5);
        for bytes in [&[][..], &[5, 5], &[0x18]] {
            assert!(matches!(cbor::<u8>(bytes), Err(ClientError::Protocol(_))), "{bytes:?}");
        }
        assert!(matches!(json::<u8>(b"5 5"), Err(ClientError::Protocol(_))));
    }

    #[test]
    fn long_lists_of_nothing_are_refused() {
        let mut bytes = vec![0x9a, 0x00, 0x10, 0x00, 0x00];
        bytes.resize(5 + (1 << 20), 0x40);
        let error = cbor::<Vec<minicbor::bytes::ByteVec>>(&bytes).unwrap_err();
        assert!(error.to_string().contains("too many items"), "{error}");
        let text = format!("[{}\"\"]", "\"\",".repeat(1 << 19));
        let error = json::<Vec<String>>(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("too many elements"), "{error}");
    }

    #[test]
    fn an_announced_length_allocates_nothing() {
        for bytes in [&[0x9b, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x5a, 0xff]] {
            assert!(cbor::<Vec<u8>>(bytes).is_err());
        }
    }
}
