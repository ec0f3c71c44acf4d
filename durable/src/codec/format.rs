//! The formats a payload can be in, chosen by type where it is written and by number where it is read.
//!
//! Guarantees that reading goes by the row alone: a function that changes its `codec = ".."` reads what it wrote
//! before. Layer: below the stores.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError, Data, Payload, json};

/// A format as a type.
#[doc(hidden)]
pub trait Format {
    /// The format as a value.
    const CODEC: Codec;
}

/// JSON text.
#[doc(hidden)]
#[derive(Debug)]
pub struct JsonFormat;

impl Format for JsonFormat {
    const CODEC: Codec = Codec::Json;
}

/// `bincode` bytes.
#[cfg(feature = "bincode")]
#[doc(hidden)]
#[derive(Debug)]
pub struct BincodeFormat;

#[cfg(feature = "bincode")]
impl Format for BincodeFormat {
    const CODEC: Codec = Codec::Bincode;
}

impl Codec {
    /// The payload of a value.
    ///
    /// # Errors
    /// The codec can't hold the value, or is not in this build.
    pub(crate) fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<Payload, CodecError> {
        let data = match self {
            Self::Json => Data::Text(json::to_json(value)?),
            #[cfg(feature = "bincode")]
            Self::Bincode => Data::Bytes(super::bincode::to_bincode(value)?),
            #[cfg(not(feature = "bincode"))]
            Self::Bincode => return Err(no_bincode("can't be written")),
        };
        Ok(Payload { codec: self.id(), data })
    }
}

impl Payload {
    /// The value of a payload, by the codec that wrote it.
    ///
    /// # Errors
    /// The codec is not in this build, or the payload does not read as a `T`.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        match (Codec::from_id(self.codec), &self.data) {
            (Some(Codec::Json), Data::Text(text)) => json::from_json(text),
            #[cfg(feature = "bincode")]
            (Some(Codec::Bincode), Data::Bytes(bytes)) => super::bincode::from_bincode(bytes),
            #[cfg(not(feature = "bincode"))]
            (Some(Codec::Bincode), Data::Bytes(_)) => Err(no_bincode("can't be read")),
            (Some(codec), _) => Err(CodecError(format!(
                "payload was written with codec `{codec:?}` but is in the other column: the row was altered by hand"
            ))),
            (None, _) => Err(CodecError(format!(
                "payload was written with codec {}, which this build does not know: run the build that wrote it, or \
                 a newer one",
                self.codec
            ))),
        }
    }
}

#[cfg(not(feature = "bincode"))]
fn no_bincode(what: &str) -> CodecError {
    CodecError(format!(
        "payload in codec 2 (`bincode`) {what} by this build: enable the feature `bincode` of `durable`"
    ))
}
