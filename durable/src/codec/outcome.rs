//! Outcomes of steps and workflows as payloads, and back.
//!
//! Guarantees that writing goes by the type and reading by the row: a derive that is added to an error later changes
//! how the next outcome is written, and every recorded one still reads. Does not read back what it wrote: the caller
//! does, and hands that copy to the first run. Layer: below the stores.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::format::Format;
use super::pick::Proven;
use super::view::{ErrorView, View};
use super::{CodecError, ErrorEncoding, Outcome};
use crate::error::Failure;

/// How outcomes of type `R` are stored; picked for each return type by the macros.
#[doc(hidden)]
pub struct OutcomeCodec<R> {
    /// Writes an outcome. On an error of the codec there is still `error` for the words.
    pub encode: fn(&R) -> Result<Outcome, CodecError>,
    /// Reads an outcome by what its row says of it.
    pub decode: fn(&Outcome) -> Result<R, CodecError>,
    /// Makes an outcome of a failure, if the error type can.
    pub from_failure: Option<fn(Failure) -> R>,
    /// The error in words: `None` for `Ok` and for what is no `Result`.
    pub error: fn(&R) -> Option<ErrorView>,
}

impl<R> Clone for OutcomeCodec<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for OutcomeCodec<R> {}

impl<R> fmt::Debug for OutcomeCodec<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutcomeCodec<{}>", std::any::type_name::<R>())
    }
}

/// Types that a pick carries without having a value of them.
type Types<T> = PhantomData<fn() -> T>;

/// Whether an `R` can be made from a [`Failure`].
#[doc(hidden)]
pub trait Revive<R> {
    /// How, if so.
    const REVIVE: Option<fn(Failure) -> R>;
}

/// The error implements `From<Failure>`.
#[doc(hidden)]
#[derive(Debug)]
pub struct FromFailure;

impl<T, E: From<Failure>> Revive<Result<T, E>> for FromFailure {
    const REVIVE: Option<fn(Failure) -> Result<T, E>> = Some(|failure| Err(failure.into()));
}

/// There is no error, or it does not.
#[doc(hidden)]
#[derive(Debug)]
pub struct NotFromFailure;

impl<R> Revive<R> for NotFromFailure {
    const REVIVE: Option<fn(Failure) -> R> = None;
}

/// A `Result` whose sides are both stored as themselves.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByValue<T, E, C>(pub(super) Types<(T, E, C)>);

impl<T, E, C> ByValue<T, E, C>
where
    T: Serialize + DeserializeOwned,
    E: Serialize + DeserializeOwned,
    C: Format,
{
    /// The codec, with the other two picks.
    pub fn with<F: Revive<Result<T, E>>, V: View<Result<T, E>>>(
        self,
        _: Proven,
        _: Proven,
        _: F,
        _: V,
    ) -> OutcomeCodec<Result<T, E>> {
        OutcomeCodec {
            encode: Self::encode::<F, V>,
            decode: Self::decode::<F>,
            from_failure: F::REVIVE,
            error: V::view,
        }
    }

    fn encode<F: Revive<Result<T, E>>, V: View<Result<T, E>>>(outcome: &Result<T, E>) -> Result<Outcome, CodecError> {
        let error = match outcome {
            Ok(value) => return C::CODEC.encode(value).map(Outcome::Done),
            Err(error) => error,
        };
        let failure = words::<_, V>(outcome);
        match C::CODEC.encode(error) {
            Ok(payload) => Ok(Outcome::Error { payload, encoding: ErrorEncoding::Value, message: failure.chain() }),
            // An error whose own `Serialize` fails is still an error of the user's, so its words are kept.
            Err(_) if F::REVIVE.is_some() => Ok(Outcome::failure(&failure)),
            Err(CodecError(why)) => Err(CodecError(format!("error of type `{}`: {why}", std::any::type_name::<E>()))),
        }
    }

    fn decode<F: Revive<Result<T, E>>>(outcome: &Outcome) -> Result<Result<T, E>, CodecError> {
        match outcome {
            Outcome::Done(payload) => payload.decode().map(Ok),
            Outcome::Error { payload, encoding: ErrorEncoding::Value, .. } => payload.decode().map(Err),
            Outcome::Error { payload, encoding: ErrorEncoding::Failure, message } => match F::REVIVE {
                Some(revive) => payload.decode().map(revive),
                None => Err(CodecError(format!(
                    "error was recorded in words and does not read as `{}`, which is stored as itself: write \
                     `impl From<durable::Failure>` for it; the words are: {message}",
                    std::any::type_name::<E>()
                ))),
            },
        }
    }
}

/// A `Result` whose error is stored in words.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByFailure<T, E, C>(pub(super) Types<(T, E, C)>);

impl<T, E, C> ByFailure<T, E, C>
where
    T: Serialize + DeserializeOwned,
    E: From<Failure>,
    C: Format,
{
    /// The codec, with the other two picks.
    pub fn with<F: Revive<Result<T, E>>, V: View<Result<T, E>>>(
        self,
        _: Proven,
        _: Proven,
        _: F,
        _: V,
    ) -> OutcomeCodec<Result<T, E>> {
        OutcomeCodec { encode: Self::encode::<V>, decode: Self::decode, from_failure: F::REVIVE, error: V::view }
    }

    fn encode<V: View<Result<T, E>>>(outcome: &Result<T, E>) -> Result<Outcome, CodecError> {
        match outcome {
            Ok(value) => C::CODEC.encode(value).map(Outcome::Done),
            Err(_) => Ok(Outcome::failure(&words::<_, V>(outcome))),
        }
    }

    fn decode(outcome: &Outcome) -> Result<Result<T, E>, CodecError> {
        let failure = match outcome {
            Outcome::Done(payload) => return payload.decode().map(Ok),
            Outcome::Error { payload, encoding: ErrorEncoding::Failure, .. } => payload.decode()?,
            // Recorded when the error still was stored as itself.
            Outcome::Error { encoding: ErrorEncoding::Value, message, .. } => Failure::new(message),
        };
        Ok(Err(failure.into()))
    }
}

/// A value that is no `Result`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plain<R, C>(pub(super) Types<(R, C)>);

impl<R: Serialize + DeserializeOwned, C: Format> Plain<R, C> {
    /// The codec, with the other two picks.
    pub fn with<F: Revive<R>, V: View<R>>(self, _: Proven, _: Proven, _: F, _: V) -> OutcomeCodec<R> {
        OutcomeCodec {
            encode: |value| C::CODEC.encode(value).map(Outcome::Done),
            decode: Self::decode,
            from_failure: F::REVIVE,
            error: V::view,
        }
    }

    fn decode(outcome: &Outcome) -> Result<R, CodecError> {
        match outcome {
            Outcome::Done(payload) => payload.decode(),
            Outcome::Error { message, .. } => Err(CodecError(format!(
                "error was recorded, which `{}` cannot express: {message}",
                std::any::type_name::<R>()
            ))),
        }
    }
}

fn words<R, V: View<R>>(outcome: &R) -> Failure {
    // Asked for an `Err` only, of which every view has words.
    V::view(outcome).map_or_else(|| Failure::new(std::any::type_name::<R>()), |view| view.failure)
}
