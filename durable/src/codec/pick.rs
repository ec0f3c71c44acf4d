//! The choice of a codec for a return type, made by the compiler at the place where the type is written.
//!
//! Auto-reference specialization: `(&&&&&Pick::<R, C>::NEW).method()` takes the trait that is implemented for the most
//! references whose bounds `R` meets. The last level takes every type and picks a marker, so that a type that fits
//! nowhere meets a trait that speaks in plain words instead of `E0599`. A generic `R` is judged by its bounds alone.
//! Layer: below the stores; the macros reach it through `__private`.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::format::Format;
use super::outcome::{ByFailure, ByValue, FromFailure, NotFromFailure, OutcomeCodec, Plain};
use super::view::{ErrorView, View};
use crate::error::Failure;

#[cfg(feature = "bincode")]
pub use super::format::BincodeFormat;
pub use super::format::JsonFormat;
pub use super::hash::{Arg, hash_args};

/// The traits of all levels, nameless: a name could shadow one that the return type is written with.
pub mod levels {
    pub use super::super::hash::{ArgsHash as _, ArgsUnhashed as _};
    pub use super::super::view::{
        ViewByChain as _, ViewByDebug as _, ViewByDisplay as _, ViewByName as _, ViewByReport as _,
    };
    pub use super::{
        CodecByFailure as _, CodecByValue as _, CodecPlain as _, FailureBack as _, NoCodec as _, NoErrorCodec as _,
        NoFailureBack as _, NoValueCodec as _, NoView as _,
    };
}

/// Stands for the return type `R`, to be written in the format `C`.
pub struct Pick<R, C>(PhantomData<fn() -> (R, C)>);

impl<R, C> Pick<R, C> {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

impl<R, C> fmt::Debug for Pick<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<R>())
    }
}

/// `Result<T, E>`, both stored as themselves.
pub trait CodecByValue<T, E, C> {
    /// The pick.
    fn __durable_codec(&self) -> ByValue<T, E, C> {
        ByValue(PhantomData)
    }
}

impl<T, E, C> CodecByValue<T, E, C> for &&&&&Pick<Result<T, E>, C>
where
    T: Serialize + DeserializeOwned,
    E: Serialize + DeserializeOwned,
    C: Format,
{
}

/// `Result<T, E>`, the error stored in words.
pub trait CodecByFailure<T, E, C> {
    /// The pick.
    fn __durable_codec(&self) -> ByFailure<T, E, C> {
        ByFailure(PhantomData)
    }
}

impl<T, E, C> CodecByFailure<T, E, C> for &&&&Pick<Result<T, E>, C>
where
    T: Serialize + DeserializeOwned,
    E: From<Failure>,
    C: Format,
{
}

/// A value that is no `Result`.
pub trait CodecPlain<R, C> {
    /// The pick.
    fn __durable_codec(&self) -> Plain<R, C> {
        Plain(PhantomData)
    }
}

impl<R: Serialize + DeserializeOwned, C: Format> CodecPlain<R, C> for &&&Pick<R, C> {}

/// `Result<T, E>` with an error that fits nowhere.
pub trait NoErrorCodec<T, E> {
    /// The pick.
    fn __durable_codec(&self) -> UnstorableError<T, E> {
        UnstorableError(PhantomData)
    }
}

impl<T: Serialize + DeserializeOwned, E, C> NoErrorCodec<T, E> for &&Pick<Result<T, E>, C> {}

/// `Result<T, E>` with a value that cannot be stored.
pub trait NoValueCodec<T, E> {
    /// The pick.
    fn __durable_codec(&self) -> UnstorableValue<Result<T, E>, T> {
        UnstorableValue(PhantomData)
    }
}

impl<T, E, C> NoValueCodec<T, E> for &Pick<Result<T, E>, C> {}

/// Anything else.
pub trait NoCodec<R> {
    /// The pick.
    fn __durable_codec(&self) -> UnstorableValue<R, R> {
        UnstorableValue(PhantomData)
    }
}

impl<R, C> NoCodec<R> for Pick<R, C> {}

/// An error that can be made from a [`Failure`].
pub trait FailureBack {
    /// The pick.
    fn __durable_failure(&self) -> FromFailure {
        FromFailure
    }
}

impl<T, E: From<Failure>, C> FailureBack for &Pick<Result<T, E>, C> {}

/// Anything else.
pub trait NoFailureBack {
    /// The pick.
    fn __durable_failure(&self) -> NotFromFailure {
        NotFromFailure
    }
}

impl<R, C> NoFailureBack for Pick<R, C> {}

/// Has no error to look at: last level of the choice of a view.
#[derive(Debug)]
pub struct NoError;

impl<R> View<R> for NoError {
    fn view(_: &R) -> Option<ErrorView> {
        None
    }
}

/// Anything that is no `Result`.
pub trait NoView {
    /// The pick.
    fn __durable_view(&self) -> NoError {
        NoError
    }
}

impl<R, C> NoView for Pick<R, C> {}

/// Marks a return type whose error has no codec.
#[derive(Debug)]
pub struct UnstorableError<T, E>(PhantomData<fn() -> (T, E)>);

impl<T, E> UnstorableError<T, E> {
    /// Asks for a proof that nothing gives.
    pub fn with<F, V>(self, error: Proof<Unstorable, E>, _: Proven, _: F, _: V) -> OutcomeCodec<Result<T, E>> {
        match error.by {}
    }
}

/// Marks a return type `R` whose value `X` has no codec.
#[derive(Debug)]
pub struct UnstorableValue<R, X>(PhantomData<fn() -> (R, X)>);

impl<R, X> UnstorableValue<R, X> {
    /// Asks for a proof that nothing gives.
    pub fn with<F, V>(self, _: Proven, value: Proof<Unstorable, X>, _: F, _: V) -> OutcomeCodec<R> {
        match value.by {}
    }
}

/// That `X` has a codec. It is asked for by an argument whose type says by whom, not by a bound: so the compiler
/// tells neither of the bound nor of the call that has it, and the whole message is ours.
#[derive(Debug)]
pub struct Proof<By, X> {
    by: By,
    of: PhantomData<fn() -> X>,
}

/// The proof for what has a codec.
pub type Proven = Proof<Storable, ()>;

/// Gives proofs.
#[derive(Debug)]
pub struct Storable;

/// Cannot give proofs.
#[derive(Debug)]
pub enum Unstorable {}

/// Proves that an error has a codec.
#[diagnostic::on_unimplemented(
    message = "`{E}` can be neither stored nor made from a `durable::Failure`",
    label = "the error of a durable function must come back after a crash",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, or write `impl From<durable::Failure>`"
)]
pub trait StorableError<E>: Sized {
    /// The proof.
    fn error() -> Proof<Self, E>;
}

#[diagnostic::do_not_recommend]
impl StorableError<()> for Storable {
    fn error() -> Proven {
        Proof { by: Self, of: PhantomData }
    }
}

/// Proves that a value has a codec.
#[diagnostic::on_unimplemented(
    message = "`{T}` cannot be stored",
    label = "what a durable function returns must come back after a crash",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it"
)]
pub trait StorableValue<T>: Sized {
    /// The proof.
    fn value() -> Proof<Self, T>;
}

#[diagnostic::do_not_recommend]
impl StorableValue<()> for Storable {
    fn value() -> Proven {
        Proof { by: Self, of: PhantomData }
    }
}

/// Expands to the `OutcomeCodec<$R>` of a return type, in the format `json` or `bincode`.
#[doc(hidden)]
#[macro_export]
macro_rules! __outcome {
    ($R:ty, json) => {
        $crate::__outcome!(@pick $R, JsonFormat)
    };
    ($R:ty, bincode) => {
        $crate::__outcome_bincode!($R)
    };
    (@pick $R:ty, $format:ident) => {{
        use $crate::__private::pick::levels::*;
        let pick = $crate::__private::pick::Pick::<$R, $crate::__private::pick::$format>::NEW;
        (&&&&&&pick).__durable_codec().with(
            $crate::__private::pick::StorableError::error(),
            $crate::__private::pick::StorableValue::value(),
            (&&pick).__durable_failure(),
            (&&&&&&pick).__durable_view(),
        )
    }};
}

/// The arm of [`__outcome`] that a feature decides on.
#[cfg(feature = "bincode")]
#[doc(hidden)]
#[macro_export]
macro_rules! __outcome_bincode {
    ($R:ty) => {
        $crate::__outcome!(@pick $R, BincodeFormat)
    };
}

/// The arm of [`__outcome`] that a feature decides on.
#[cfg(not(feature = "bincode"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __outcome_bincode {
    ($R:ty) => {
        ::core::compile_error!("`codec = \"bincode\"` needs the feature `bincode` of `durable`")
    };
}
