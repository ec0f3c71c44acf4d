//! `retry(..)`: how often and how fast a failed step or workflow is tried again.
//!
//! Guarantees a policy that can be followed: at least one attempt, pauses that do not shrink. The pauses themselves
//! are made by the library.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Error, Path, Result};

use crate::attribute::Entry;
use crate::duration;
use crate::errors::Errors;

const KNOWN: &[&str] = &["max_attempts", "initial", "factor", "max", "jitter", "when"];

/// `when` looks at the error of one call.
const KNOWN_TO_WORKFLOWS: &[&str] = &["max_attempts", "initial", "factor", "max", "jitter"];

/// The policy, defaults filled in.
pub(crate) struct Retry {
    /// All attempts, the first one included.
    pub(crate) max_attempts: u32,
    /// The pause before the second attempt.
    pub(crate) initial: Duration,
    /// What each pause is multiplied with to make the next.
    pub(crate) factor: f64,
    /// The longest pause.
    pub(crate) max: Duration,
    /// Whether pauses are spread at random.
    pub(crate) jitter: bool,
    /// `fn(&E) -> bool`, true for an error that another attempt may cure.
    pub(crate) when: Option<Path>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(60),
            jitter: true,
            when: None,
        }
    }
}

impl Retry {
    /// `retry` or `retry(..)` on a workflow.
    pub(crate) fn parse_of_workflow(entry: Entry, errors: &mut Errors) -> Result<Self> {
        Self::parse_known(entry, KNOWN_TO_WORKFLOWS, errors)
    }

    /// `retry` or `retry(..)` on a step.
    pub(crate) fn parse(entry: Entry, errors: &mut Errors) -> Result<Self> {
        Self::parse_known(entry, KNOWN, errors)
    }

    fn parse_known(entry: Entry, known: &[&str], errors: &mut Errors) -> Result<Self> {
        let mut retry = Self::default();
        let mut initial_at = entry.span();
        for entry in entry.list()?.distinct(errors) {
            if !known.iter().any(|known| entry.key == known) {
                errors.add(entry.unknown("`retry`", known));
                continue;
            }
            if entry.key == "initial" {
                initial_at = entry.value_span();
            }
            if let Err(error) = retry.set(&entry) {
                errors.add(error);
            }
        }
        if let Err(error) = retry.check(initial_at) {
            errors.add(error);
        }
        Ok(retry)
    }

    fn set(&mut self, entry: &Entry) -> Result<()> {
        match entry.key.to_string().as_str() {
            "max_attempts" => self.max_attempts = attempts(entry)?,
            "initial" => self.initial = duration::parse(&entry.text()?)?,
            "factor" => self.factor = factor(entry)?,
            "max" => self.max = duration::parse(&entry.text()?)?,
            "jitter" => self.jitter = entry.switch()?,
            "when" => self.when = Some(entry.path()?),
            _ => return Err(entry.unknown("`retry`", KNOWN)),
        }
        Ok(())
    }

    /// The policy as the library's.
    pub(crate) fn expr(&self, library: &impl ToTokens) -> TokenStream {
        let Self { max_attempts, factor, jitter, .. } = self;
        let (initial, max) = (duration::expr(self.initial), duration::expr(self.max));
        quote! {
            #library::__private::RetryPolicy {
                max_attempts: #max_attempts,
                initial: #initial,
                factor: #factor,
                max: #max,
                jitter: #jitter,
            }
        }
    }

    fn check(&self, initial_at: Span) -> Result<()> {
        if self.initial > self.max {
            return Err(Error::new(
                initial_at,
                "`initial` is longer than `max`, which is 1m unless given: raise `max`",
            ));
        }
        Ok(())
    }
}

fn attempts(entry: &Entry) -> Result<u32> {
    match entry.whole()? {
        0 => Err(Error::new(entry.value_span(), "`max_attempts` counts the first run too: 1 is a run without retries")),
        attempts => Ok(attempts),
    }
}

fn factor(entry: &Entry) -> Result<f64> {
    let factor = entry.number()?;
    if factor.is_finite() && factor >= 1.0 {
        return Ok(factor);
    }
    Err(Error::new(entry.value_span(), "`factor` must be at least 1, or the pauses would shrink: 1 keeps them equal"))
}
