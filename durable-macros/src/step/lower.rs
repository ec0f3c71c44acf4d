//! Refusals of a step: what compiles as a plain async fn and still cannot be recorded or tried again.

use syn::{Receiver, ReceiverKind, Result, Type};

use super::parse::{Options, Parsed};
use crate::errors::Errors;
use crate::function::{Argument, Function};
use crate::refuse;

/// A step that can be expanded.
pub(crate) struct Step {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: Type,
    pub(crate) options: Options,
}

/// Checks everything, reports all of it.
pub(crate) fn lower(parsed: Parsed) -> Result<Step> {
    let Parsed { function, options, mut errors } = parsed;
    let arguments = function.arguments();
    let output = function.output();
    refuse::qualifiers(&function, "step", &mut errors);
    refuse::output(&output, "step", &mut errors);
    if options.retry.is_some() {
        if let Some(receiver) = function.receiver() {
            retried_receiver(receiver, &mut errors);
        }
        for argument in arguments.iter().filter(|argument| argument.is_exclusive_reference()) {
            errors.refuse(
                &argument.ty,
                "a step with `retry` cannot take `&mut`: a failed attempt may leave it half changed; take the value and return it",
            );
        }
    }
    errors.or(Step { function, arguments, output, options })
}

fn retried_receiver(receiver: &Receiver, errors: &mut Errors) {
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => {}
        ReceiverKind::Reference(_, _, Some(_)) => errors.refuse(
            receiver,
            "a step with `retry` cannot take `&mut self`: a failed attempt may leave it half changed; take `&self`",
        ),
        ReceiverKind::Typed(_, ty) if matches!(&**ty, Type::Reference(reference) if reference.mutability.is_none()) => {
        }
        _ => errors.refuse(
            receiver,
            "a step with `retry` cannot take `self` by value: the first attempt would use it up; take `&self`",
        ),
    }
}
