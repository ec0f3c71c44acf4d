//! The serializer that checks while `serde_json` writes.
//!
//! It wraps whatever serializer `serde` hands down, so that private types of `serde_json` (raw values, numbers of
//! arbitrary precision) meet the serializer they know. The depth travels by value and the path is made only while an
//! error travels up: a value without faults costs no allocation. Layer: below the stores.

use std::cell::RefCell;
use std::fmt::Display;

use serde::ser::{self, Serialize, Serializer};

use super::path::{Path, Segment};
use super::{CodecError, MAX_DEPTH, check_json};

/// What is wrong and where, kept beside the serializer's own error, which can hold neither.
#[derive(Default)]
pub(super) struct Findings {
    refusal: RefCell<Option<String>>,
    path: RefCell<Path>,
}

impl Findings {
    #[cold]
    fn refuse<E: ser::Error>(&self, refusal: impl Into<String>) -> E {
        *self.refusal.borrow_mut() = Some(refusal.into());
        E::custom("refused")
    }

    #[cold]
    fn inside<E>(&self, segment: Segment, error: E) -> E {
        self.path.borrow_mut().prepend(segment);
        error
    }

    /// The result of the whole pass. A refusal stands even if a `Serialize` swallowed the error it came with.
    pub(super) fn verdict<T, E: Display>(self, written: Result<T, E>) -> Result<T, CodecError> {
        let path = self.path.into_inner();
        let field = if path.is_empty() { "the value".to_owned() } else { format!("field `{path}`") };
        match (self.refusal.into_inner(), written) {
            (Some(refusal), _) => Err(CodecError(format!("{field} {refusal}"))),
            (None, Err(error)) => Err(CodecError(format!("{field} does not serialize: {error}"))),
            (None, Ok(value)) => Ok(value),
        }
    }
}

/// A value or a serializer, with what the check needs to know at this place.
pub(super) struct Checked<'a, T> {
    inner: T,
    /// Arrays and objects that are open around it.
    depth: u8,
    /// The next string is raw JSON text.
    raw: bool,
    findings: &'a Findings,
}

impl<'a, T> Checked<'a, T> {
    pub(super) fn root(value: T, findings: &'a Findings) -> Self {
        Self { inner: value, depth: 0, raw: false, findings }
    }
}

impl<T: Serialize> Serialize for Checked<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { ref inner, depth, raw, findings } = *self;
        inner.serialize(Checked { inner: serializer, depth, raw, findings })
    }
}

/// An open array or object.
pub(super) struct Open<'a, C> {
    inner: C,
    depth: u8,
    raw: bool,
    /// Entries so far.
    count: usize,
    /// The variant of an enum that the array or object is the value of: one more object around it.
    variant: Option<&'static str>,
    findings: &'a Findings,
}

impl<'a, S: Serializer> Checked<'a, S> {
    fn deeper(&self, levels: u8) -> Result<u8, S::Error> {
        match self.depth + levels {
            depth if depth <= MAX_DEPTH => Ok(depth),
            _ => Err(self.findings.refuse(format!(
                "is nested deeper than {MAX_DEPTH} levels, which does not read back: flatten it, or store it as text"
            ))),
        }
    }

    fn open<C>(
        self,
        levels: u8,
        variant: Option<&'static str>,
        open: impl FnOnce(S) -> Result<C, S::Error>,
    ) -> Result<Open<'a, C>, S::Error> {
        let depth = self.deeper(levels)?;
        let Self { inner, findings, .. } = self;
        Ok(Open { inner: open(inner)?, depth, raw: false, count: 0, variant, findings })
    }

    #[cold]
    fn non_finite<T>(self, value: f64) -> Result<T, S::Error> {
        let shown = if value.is_nan() { "NaN" } else { "infinite" };
        Err(self.findings.refuse(format!(
            "is {shown}, which JSON cannot hold: make it an `Option`, or store it with `codec = \"bincode\"`"
        )))
    }
}

impl<'a, C> Open<'a, C> {
    fn entry<V, E>(
        &mut self,
        value: V,
        segment: impl FnOnce(usize) -> Segment,
        write: impl FnOnce(&mut C, &Checked<'a, V>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { depth, raw, findings, .. } = *self;
        let written = write(&mut self.inner, &Checked { inner: value, depth, raw, findings });
        let index = self.count;
        self.count += 1;
        // The private field of a raw text is no part of anybody's path.
        if raw {
            return written;
        }
        written.map_err(|error| {
            let error = findings.inside(segment(index), error);
            match self.variant {
                Some(variant) => findings.inside(Segment::Key(variant.to_owned()), error),
                None => error,
            }
        })
    }
}

/// Methods that only pass a value through.
macro_rules! forward {
    ($($method:ident($($ty:ty)?),)*) => {$(
        fn $method(self $(, v: $ty)?) -> Result<S::Ok, S::Error> {
            self.inner.$method($({ let v: $ty = v; v })?)
        }
    )*};
}

impl<'a, S: Serializer> Serializer for Checked<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Open<'a, S::SerializeSeq>;
    type SerializeTuple = Open<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Open<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Open<'a, S::SerializeTupleVariant>;
    type SerializeMap = Open<'a, S::SerializeMap>;
    type SerializeStruct = Open<'a, S::SerializeStruct>;
    type SerializeStructVariant = Open<'a, S::SerializeStructVariant>;

    forward! {
        serialize_bool(bool), serialize_char(char), serialize_none(), serialize_unit(),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128),
        serialize_unit_struct(&'static str),
    }

    fn serialize_f32(self, v: f32) -> Result<S::Ok, S::Error> {
        if v.is_finite() { self.inner.serialize_f32(v) } else { self.non_finite(f64::from(v)) }
    }

    fn serialize_f64(self, v: f64) -> Result<S::Ok, S::Error> {
        if v.is_finite() { self.inner.serialize_f64(v) } else { self.non_finite(v) }
    }

    fn serialize_str(self, v: &str) -> Result<S::Ok, S::Error> {
        if self.raw
            && let Err(CodecError(message)) = check_json(v)
        {
            return Err(self.findings.refuse(format!("is raw JSON that does not read back: {message}")));
        }
        self.inner.serialize_str(v)
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<S::Ok, S::Error> {
        self.deeper(1)?;
        self.inner.serialize_bytes(v)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let Self { inner, depth, raw, findings } = self;
        inner.serialize_some(&Checked { inner: value, depth, raw, findings })
    }

    fn serialize_unit_variant(self, name: &'static str, index: u32, variant: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<S::Ok, S::Error> {
        let Self { inner, depth, raw, findings } = self;
        inner.serialize_newtype_struct(name, &Checked { inner: value, depth, raw, findings })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let depth = self.deeper(1)?;
        let Self { inner, raw, findings, .. } = self;
        inner
            .serialize_newtype_variant(name, index, variant, &Checked { inner: value, depth, raw, findings })
            .map_err(|error| findings.inside(Segment::Key(variant.to_owned()), error))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.open(1, None, |inner| inner.serialize_seq(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.open(1, None, |inner| inner.serialize_tuple(len))
    }

    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.open(1, None, |inner| inner.serialize_tuple_struct(name, len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.open(2, Some(variant), |inner| inner.serialize_tuple_variant(name, index, variant, len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.open(1, None, |inner| inner.serialize_map(len))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        // `serde_json` marks a raw text and a number kept as text by a struct of such a name: no level in the text.
        let private = name.starts_with("$serde_json::private::");
        let open = self.open(u8::from(!private), None, |inner| inner.serialize_struct(name, len))?;
        Ok(Open { raw: private && name.ends_with("::RawValue"), ..open })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.open(2, Some(variant), |inner| inner.serialize_struct_variant(name, index, variant, len))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        if self.raw { self.serialize_str(&value.to_string()) } else { self.inner.collect_str(value) }
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Arrays: one method, named by position.
macro_rules! array {
    ($($kind:ident $method:ident,)*) => {$(
        impl<C: ser::$kind> ser::$kind for Open<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                self.entry(value, Segment::Index, |inner, value| inner.$method(value))
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

array! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

/// Objects with fields known by name.
macro_rules! object {
    ($($kind:ident,)*) => {$(
        impl<C: ser::$kind> ser::$kind for Open<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                self.entry(
                    value,
                    |_| Segment::Key(key.to_owned()),
                    |inner, value| inner.serialize_field(key, value),
                )
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(key)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

object! { SerializeStruct, SerializeStructVariant, }

impl<C: ser::SerializeMap> ser::SerializeMap for Open<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<K: Serialize + ?Sized>(&mut self, key: &K) -> Result<(), C::Error> {
        self.inner.serialize_key(key)
    }

    /// Only for a `Serialize` that writes key and value apart: by then the key is gone, so the place is a number.
    fn serialize_value<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), C::Error> {
        self.entry(value, |index| Segment::Key(format!("<entry {index}>")), |inner, value| inner.serialize_value(value))
    }

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), C::Error> {
        self.entry(value, |_| Segment::Key(shown(key)), |inner, value| inner.serialize_entry(key, value))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

/// A map key for a path: a string without its quotes.
fn shown<K: Serialize + ?Sized>(key: &K) -> String {
    match serde_json::to_value(key) {
        Ok(serde_json::Value::String(key)) => key,
        Ok(other) => other.to_string(),
        Err(_) => "?".to_owned(),
    }
}
