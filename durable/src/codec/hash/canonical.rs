//! The canonical bytes that are hashed: self-delimiting, so that values that differ have bytes that differ.
//!
//! Every value is a tag and its content: integers by value in as few bytes as they need, strings with their length,
//! sequences up to an end tag, maps as their count and the wrapping sum of the hashes of their entries. Enums are
//! what JSON makes of them. Layer: below the stores.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NATURAL: u8 = 3;
const NEGATIVE: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const LIST: u8 = 7;
const END: u8 = 8;
const MAP: u8 = 9;

/// Levels of nesting; what JSON could not hold is not worth a stack overflow here.
const MAX_DEPTH: u8 = 127;

/// The canonical bytes of a value.
pub(super) fn bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Unhashable> {
    let mut bytes = Vec::with_capacity(64);
    value.serialize(Canonical { bytes: &mut bytes, depth: 0, key: false })?;
    Ok(bytes)
}

/// A value that has no hash; why does not matter to anybody.
#[derive(Debug)]
pub(super) struct Unhashable;

impl fmt::Display for Unhashable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value has no hash")
    }
}

impl std::error::Error for Unhashable {}

impl ser::Error for Unhashable {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct Canonical<'b> {
    bytes: &'b mut Vec<u8>,
    depth: u8,
    /// A map key: JSON writes numbers and booleans there as strings.
    key: bool,
}

impl<'b> Canonical<'b> {
    fn scalar(self, tag: u8) -> Result<(), Unhashable> {
        self.bytes.push(tag);
        Ok(())
    }

    fn text(self, text: &str) -> Result<(), Unhashable> {
        self.bytes.push(TEXT);
        natural(self.bytes, text.len() as u128);
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn integer(self, negative: bool, magnitude: u128) -> Result<(), Unhashable> {
        if self.key {
            let sign = if negative { "-" } else { "" };
            return self.text(&format!("{sign}{magnitude}"));
        }
        self.bytes.push(if negative { NEGATIVE } else { NATURAL });
        natural(self.bytes, magnitude);
        Ok(())
    }

    fn list(self) -> Result<List<'b>, Unhashable> {
        let depth = deeper(self.depth)?;
        self.bytes.push(LIST);
        Ok(List { bytes: self.bytes, depth, around: None })
    }

    fn map(self) -> Result<Map<'b>, Unhashable> {
        let depth = deeper(self.depth)?;
        Ok(Map { start: self.bytes.len(), bytes: self.bytes, depth, count: 0, sum: 0, around: None })
    }

    /// The object of one entry that JSON makes of a variant with content.
    fn variant(self, variant: &'static str) -> Result<(Canonical<'b>, Entry), Unhashable> {
        let depth = deeper(self.depth)?;
        let entry = Entry { start: self.bytes.len() };
        Canonical { bytes: &mut *self.bytes, depth, key: true }.text(variant)?;
        Ok((Canonical { bytes: self.bytes, depth, key: false }, entry))
    }
}

fn deeper(depth: u8) -> Result<u8, Unhashable> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(Unhashable) }
}

/// Seven bits a byte, the lowest first: one form for each number, on every platform.
fn natural(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Where the bytes of a map entry start.
struct Entry {
    start: usize,
}

impl Entry {
    /// Takes the entry's bytes away and leaves their hash.
    fn hash(self, bytes: &mut Vec<u8>) -> u64 {
        let hash = xxh3_64(&bytes[self.start..]);
        bytes.truncate(self.start);
        hash
    }

    fn close_alone(self, bytes: &mut Vec<u8>) {
        let hash = self.hash(bytes);
        close_map(bytes, 1, hash);
    }
}

fn close_map(bytes: &mut Vec<u8>, count: u64, sum: u64) {
    bytes.push(MAP);
    natural(bytes, count.into());
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// A sequence that is being written, perhaps as the content of a variant.
struct List<'b> {
    bytes: &'b mut Vec<u8>,
    depth: u8,
    around: Option<Entry>,
}

/// A map or struct that is being written, perhaps as the content of a variant.
struct Map<'b> {
    bytes: &'b mut Vec<u8>,
    depth: u8,
    start: usize,
    count: u64,
    sum: u64,
    around: Option<Entry>,
}

impl Map<'_> {
    fn key<K: Serialize + ?Sized>(&mut self, key: &K) -> Result<(), Unhashable> {
        key.serialize(Canonical { bytes: &mut *self.bytes, depth: self.depth, key: true })
    }

    fn value<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), Unhashable> {
        value.serialize(Canonical { bytes: &mut *self.bytes, depth: self.depth, key: false })?;
        let hash = Entry { start: self.start }.hash(self.bytes);
        self.sum = self.sum.wrapping_add(hash);
        self.count += 1;
        Ok(())
    }
}

/// Numbers of different width are one number.
macro_rules! widen {
    ($($wide:ident: $($method:ident($ty:ty))*,)*) => {$($(
        fn $method(self, v: $ty) -> Result<(), Unhashable> {
            self.$wide(v.into())
        }
    )*)*};
}

impl<'b> Serializer for Canonical<'b> {
    type Ok = ();
    type Error = Unhashable;
    type SerializeSeq = List<'b>;
    type SerializeTuple = List<'b>;
    type SerializeTupleStruct = List<'b>;
    type SerializeTupleVariant = List<'b>;
    type SerializeMap = Map<'b>;
    type SerializeStruct = Map<'b>;
    type SerializeStructVariant = Map<'b>;

    fn serialize_bool(self, v: bool) -> Result<(), Unhashable> {
        match (self.key, v) {
            (true, _) => self.text(if v { "true" } else { "false" }),
            (false, true) => self.scalar(TRUE),
            (false, false) => self.scalar(FALSE),
        }
    }

    widen! {
        serialize_i128: serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64),
        serialize_u128: serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64),
        serialize_f64: serialize_f32(f32),
    }

    fn serialize_i128(self, v: i128) -> Result<(), Unhashable> {
        self.integer(v < 0, v.unsigned_abs())
    }

    fn serialize_u128(self, v: u128) -> Result<(), Unhashable> {
        self.integer(false, v)
    }

    fn serialize_f64(self, v: f64) -> Result<(), Unhashable> {
        // Which NaN an operation makes depends on the platform.
        let bits = if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
        self.bytes.push(FLOAT);
        self.bytes.extend_from_slice(&bits.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), Unhashable> {
        self.text(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), Unhashable> {
        self.text(v)
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), Unhashable> {
        v.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Unhashable> {
        self.scalar(NULL)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unhashable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unhashable> {
        self.scalar(NULL)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unhashable> {
        self.scalar(NULL)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unhashable> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unhashable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unhashable> {
        let (Canonical { bytes, depth, key }, entry) = self.variant(variant)?;
        value.serialize(Canonical { bytes: &mut *bytes, depth, key })?;
        entry.close_alone(bytes);
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'b>, Unhashable> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'b>, Unhashable> {
        self.list()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'b>, Unhashable> {
        self.list()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'b>, Unhashable> {
        let (content, entry) = self.variant(variant)?;
        Ok(List { around: Some(entry), ..content.list()? })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map<'b>, Unhashable> {
        self.map()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Map<'b>, Unhashable> {
        self.map()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Map<'b>, Unhashable> {
        let (content, entry) = self.variant(variant)?;
        Ok(Map { around: Some(entry), ..content.map()? })
    }
}

macro_rules! list {
    ($($kind:ident $method:ident,)*) => {$(
        impl ser::$kind for List<'_> {
            type Ok = ();
            type Error = Unhashable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unhashable> {
                value.serialize(Canonical { bytes: &mut *self.bytes, depth: self.depth, key: false })
            }

            fn end(self) -> Result<(), Unhashable> {
                self.bytes.push(END);
                if let Some(entry) = self.around {
                    entry.close_alone(self.bytes);
                }
                Ok(())
            }
        }
    )*};
}

list! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

impl Map<'_> {
    fn close(self) -> Result<(), Unhashable> {
        close_map(self.bytes, self.count, self.sum);
        if let Some(entry) = self.around {
            entry.close_alone(self.bytes);
        }
        Ok(())
    }
}

macro_rules! map {
    ($($kind:ident,)*) => {$(
        impl ser::$kind for Map<'_> {
            type Ok = ();
            type Error = Unhashable;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Unhashable> {
                self.key(key)?;
                self.value(value)
            }

            fn end(self) -> Result<(), Unhashable> {
                self.close()
            }
        }
    )*};
}

map! { SerializeStruct, SerializeStructVariant, }

impl ser::SerializeMap for Map<'_> {
    type Ok = ();
    type Error = Unhashable;

    fn serialize_key<K: Serialize + ?Sized>(&mut self, key: &K) -> Result<(), Unhashable> {
        self.key(key)
    }

    fn serialize_value<V: Serialize + ?Sized>(&mut self, value: &V) -> Result<(), Unhashable> {
        self.value(value)
    }

    fn end(self) -> Result<(), Unhashable> {
        self.close()
    }
}
