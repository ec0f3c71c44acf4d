//! Values as `bincode` 2 bytes in its standard configuration, and back.
//!
//! Guarantees that all bytes are read. Cannot hold what needs a self-describing format (`serde_json::Value`,
//! `#[serde(untagged)]`, `flatten`): such a value is written but does not read back, which the caller's decoding
//! finds before anything is stored. Layer: below the stores.

use bincode::config;
use bincode::serde::{decode_from_slice, encode_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CodecError;

/// The bytes of a value.
pub(super) fn to_bincode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    encode_to_vec(value, config::standard())
        .map_err(|error| CodecError(format!("the value does not serialize to bincode: {error}")))
}

/// The value of the bytes.
pub(super) fn from_bincode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let name = std::any::type_name::<T>();
    let (value, read) = decode_from_slice(bytes, config::standard())
        .map_err(|error| CodecError(format!("bincode does not read as `{name}`: {error}")))?;
    match bytes.len() - read {
        0 => Ok(value),
        left => Err(CodecError(format!("bincode does not read as `{name}`: {left} bytes are left over"))),
    }
}
