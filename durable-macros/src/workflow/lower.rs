//! Refusals of a workflow: what another process could not start from the database.

use syn::{Result, Type};

use super::parse::{Options, Parsed};
use crate::errors::Errors;
use crate::function::{Argument, Function};
use crate::refuse;

/// A workflow that can be expanded.
pub(crate) struct Workflow {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: Type,
    pub(crate) options: Options,
}

/// Checks everything, reports all of it.
pub(crate) fn lower(parsed: Parsed) -> Result<Workflow> {
    let Parsed { function, options, mut errors } = parsed;
    let arguments = function.arguments();
    let output = function.output();
    refuse::qualifiers(&function, "workflow", &mut errors);
    refuse::output(&output, "workflow", &mut errors);
    if let Some(receiver) = function.receiver() {
        errors.refuse(
            receiver,
            "a workflow cannot take `self`: another process starts it from its stored arguments; make it a free function and pass what it needs",
        );
    }
    let generics = &function.sig.generics;
    if !generics.params.is_empty() {
        errors.refuse(
            &generics.params,
            "a workflow cannot be generic: it is found again by its name alone; write one workflow per type, and share a generic fn",
        );
    }
    for argument in &arguments {
        owned(argument, &mut errors);
    }
    errors.or(Workflow { function, arguments, output, options })
}

fn owned(argument: &Argument, errors: &mut Errors) {
    let borrows = refuse::borrows(&argument.ty);
    for reference in borrows.references {
        errors.refuse(
            reference,
            format!(
                "a workflow cannot borrow `{}`: its arguments are stored; take {}",
                refuse::show(argument.token()),
                refuse::owned(reference),
            ),
        );
    }
    for lifetime in borrows.lifetimes {
        errors.refuse(lifetime, "a workflow cannot borrow: its arguments are stored; take an owned type");
    }
    for opaque in borrows.opaque {
        errors.refuse(
            opaque,
            "a workflow cannot take `impl Trait`: its arguments are read back from the database; name the type",
        );
    }
}
