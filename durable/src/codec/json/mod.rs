//! Values as JSON text, and back.
//!
//! Guarantees that text written here reads back: no deeper than `serde_json` reads, no number JSON cannot hold, no
//! raw text with an escape that no string can have; floats keep their bits. Does not read its own text back: the
//! caller does, because the first run of a step needs the decoded copy anyway. Layer: below the stores.

mod checked;
mod path;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};

use self::checked::{Checked, Findings};
use super::CodecError;

/// Levels of arrays and objects that a text may have: `serde_json` gives up at the 128th when it reads.
const MAX_DEPTH: u8 = 127;

/// The JSON text of a value, in one pass.
///
/// # Errors
/// A non-finite float, more than 127 levels, a map key that is no string, raw JSON that is broken inside, or what the
/// value's own `Serialize` says; each with the path of the field.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CodecError> {
    let findings = Findings::default();
    let mut text = Vec::with_capacity(128);
    let written = Checked::root(value, &findings).serialize(&mut serde_json::Serializer::new(&mut text));
    findings.verdict(written)?;
    String::from_utf8(text).map_err(|error| CodecError(format!("the JSON text is not UTF-8: {error}")))
}

/// The value of a JSON text.
///
/// # Errors
/// What `serde_json` says, with line, column and the path of the field; nesting of 128 levels or more is one such
/// error and never a stack overflow.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, CodecError> {
    read(text, std::any::type_name::<T>())
}

fn read<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, CodecError> {
    serde_json::from_str(text).map_err(|error| {
        let at = path::at(text, error.line(), error.column());
        let field = if at.is_empty() { String::new() } else { format!(" in field `{at}`") };
        CodecError(format!("JSON does not read as `{name}`: {error}{field}"))
    })
}

/// Checks a text that comes from outside or from a `RawValue`, which `serde_json` copies without a look inside.
///
/// # Errors
/// Text that could not be read as a `serde_json::Value`: broken, 128 levels or more, an unpaired surrogate escape,
/// a number out of range.
pub(crate) fn check_json(text: &str) -> Result<(), CodecError> {
    read::<AnyJson>(text, "serde_json::Value").map(drop)
}

/// Reads anything and keeps nothing. `IgnoredAny` would not do: it skips escapes and depth unread.
struct AnyJson;

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

impl<'de> Visitor<'de> for AnyJson {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<AnyJson>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<AnyJson, AnyJson>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
