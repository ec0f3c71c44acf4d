//! Payloads: how inputs, outcomes and errors become bytes and come back.
//!
//! Guarantees that a row says by itself how it was encoded, and that what JSON could not give back is refused when it
//! is written, with the path of the field. Writes no Rust path, so types may be renamed and moved. Does not decode
//! what it encoded: the caller does, before it sends it, and hands that copy to the first run. Layer: below the stores.

#[cfg(feature = "bincode")]
mod bincode;
mod format;
mod hash;
mod json;
pub mod outcome;
pub mod pick;
#[cfg(test)]
mod tests;
mod view;

pub use outcome::OutcomeCodec;
pub use view::ErrorView;

use crate::error::Failure;

/// Which codec wrote a payload; stored in every row that holds one, so codecs mix in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Text, the default: readable by SQL.
    Json,
    /// Bytes, `bincode` 2 with its standard configuration; needs the feature `bincode`.
    Bincode,
}

impl Codec {
    /// The number in the column `codec`.
    pub fn id(self) -> i16 {
        match self {
            Self::Json => 1,
            Self::Bincode => 2,
        }
    }

    /// The codec of a stored number, if this build knows it.
    pub fn from_id(id: i16) -> Option<Self> {
        match id {
            1 => Some(Self::Json),
            2 => Some(Self::Bincode),
            _ => None,
        }
    }
}

/// An encoded value: text for JSON, bytes for binary codecs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The number of the codec that wrote it, kept as stored: a build may meet one it does not know.
    pub codec: i16,
    /// The value.
    pub data: Data,
}

/// The two columns a payload can be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In the `json` column.
    Text(String),
    /// In the bytes column.
    Bytes(Vec<u8>),
}

impl Payload {
    /// The size in bytes, as it counts against the limits.
    pub fn size(&self) -> usize {
        match &self.data {
            Data::Text(text) => text.len(),
            Data::Bytes(bytes) => bytes.len(),
        }
    }
}

/// How the error of an outcome was encoded: a column of the row, because a derive added later changes what the
/// type would choose today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorEncoding {
    /// The error itself, through serde.
    Value,
    /// Its display chain, as a [`Failure`] in JSON.
    Failure,
}

impl ErrorEncoding {
    /// The word in the column `error_encoding`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Failure => "failure",
        }
    }
}

/// The recorded outcome of a step or workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value; for a `Result` its `Ok` side alone.
    Done(Payload),
    /// The `Err` side of a `Result`, or a failure the library made.
    Error {
        /// The encoded error.
        payload: Payload,
        /// How `payload` is to be read.
        encoding: ErrorEncoding,
        /// The error in words, for the column `error_message`.
        message: String,
    },
}

impl Outcome {
    /// A failure of the library's own making, or one that has no other encoding.
    pub fn failure(failure: &Failure) -> Self {
        Self::Error {
            payload: Payload {
                codec: Codec::Json.id(),
                // `Failure` is strings and flags: it always has a JSON text.
                data: Data::Text(serde_json::to_string(failure).unwrap_or_default()),
            },
            encoding: ErrorEncoding::Failure,
            message: failure.chain(),
        }
    }

    /// The payload of either side.
    pub fn payload(&self) -> &Payload {
        match self {
            Self::Done(payload) | Self::Error { payload, .. } => payload,
        }
    }
}

/// Why a value has no payload, or a payload no value. A sentence that names the field where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub String);
