//! Values that look random and repeat on replay. Layer: workflow.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::context::Context;
use crate::ids::StepKey;

/// A UUID, without a dependency on a crate of a certain version: `as_u128` and `Display` convert it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Uuid(u128);

impl Uuid {
    /// The 128 bits.
    pub fn as_u128(self) -> u128 {
        self.0
    }

    pub(super) fn fresh() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }

    /// 32 hexadecimal digits.
    pub(super) fn simple(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_u128(self.0).fmt(f)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

impl TryFrom<String> for Uuid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        uuid::Uuid::parse_str(&text).map(|uuid| Self(uuid.as_u128())).map_err(|error| error.to_string())
    }
}

/// The value at a position: the same for the same workflow, seed and position, and different for any other.
pub(super) fn derive(context: &Context, key: &StepKey, what: &str) -> Uuid {
    // Lengths keep two different positions from having the same text.
    let id = &context.workflow_id;
    let text = format!("{what}/{}/{id}/{}/{}/{}", id.len(), context.seed, key.branch, key.index);
    let namespace = uuid::Uuid::from_u128(0x6475_7261_626c_655f_7265_706c_6179_0001);
    Uuid(uuid::Uuid::new_v5(&namespace, text.as_bytes()).as_u128())
}

/// Types that [`random`](crate::random) can make.
pub trait Random: private::Sealed {
    #[doc(hidden)]
    fn from_bits(bits: u128) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($Type:ty),*) => {$(
        impl private::Sealed for $Type {}
        impl Random for $Type {
            #[expect(clippy::allow_attributes, reason = "only some of the types truncate or wrap")]
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "random bits have no value to lose")]
            fn from_bits(bits: u128) -> Self {
                mix(bits) as $Type
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl private::Sealed for bool {}
impl Random for bool {
    fn from_bits(bits: u128) -> Self {
        mix(bits) & 1 == 1
    }
}

impl private::Sealed for f64 {}
impl Random for f64 {
    /// In `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn from_bits(bits: u128) -> Self {
        (mix(bits) >> 11) as Self / (1_u64 << 53) as Self
    }
}

/// The fixed version bits of a UUID must not show in a number.
fn mix(bits: u128) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&bits.to_be_bytes())
}
