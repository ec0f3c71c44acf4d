//! Rows to model: written once, for both drivers' row types.
//!
//! Guarantees that a row damaged by hand takes no neighbour with it: what can't be understood of a checkpoint is
//! kept as text in its place. Layer: store.

use std::error::Error as _;

use super::{Result, StoreError};
use crate::codec::{Data, ErrorEncoding, Outcome, Payload};
use crate::model::StoredInput;

/// The columns `codec`, text and bytes as a payload; `None` if the row has neither.
pub(super) fn payload(codec: i16, text: Option<String>, bytes: Option<Vec<u8>>) -> Option<Payload> {
    let data = text.map(Data::Text).or_else(|| bytes.map(Data::Bytes))?;
    Some(Payload { codec, data })
}

/// The outcome in a row, or why it is none.
pub(super) fn outcome(
    is_error: bool,
    payload: Option<Payload>,
    encoding: Option<&str>,
    message: Option<String>,
) -> std::result::Result<Outcome, String> {
    let payload = payload.ok_or("the row has neither text nor bytes")?;
    if !is_error {
        return Ok(Outcome::Done(payload));
    }
    let encoding = match encoding {
        Some("value") => ErrorEncoding::Value,
        Some("failure") | None => ErrorEncoding::Failure,
        Some(other) => return Err(format!("the row's error_encoding is `{other}`, which this build does not know")),
    };
    Ok(Outcome::Error { payload, encoding, message: message.unwrap_or_default() })
}

/// What the driver says of a row that it can't read.
pub(super) fn unreadable(error: &StoreError) -> String {
    let chain = std::iter::successors(error.source(), |&error| error.source());
    chain.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// The input in a row, or why there is none.
pub(super) fn input(payload: Result<Option<Payload>>) -> std::result::Result<StoredInput, String> {
    match payload {
        Ok(Some(payload)) => Ok(StoredInput { payload }),
        Ok(None) => Err("is missing: its row in workflow_payloads has neither text nor bytes".to_owned()),
        Err(error) => Err(format!("can't be read: {}; repair its row in workflow_payloads", unreadable(&error))),
    }
}

/// The readers for one driver's rows.
macro_rules! readers {
    ($Row:ty) => {
        /// Columns as in `workflow/workflow`.
        pub(super) fn workflow_state(row: &$Row) -> Result<crate::model::WorkflowState> {
            let status: String = row.try_get("status")?;
            Ok(crate::model::WorkflowState {
                name: row.try_get("name")?,
                status: crate::model::WorkflowStatus::parse(&status).ok_or_else(|| {
                    StoreError::new(StoreErrorKind::Corrupt, format!("unknown workflow status `{status}`"))
                })?,
                reason: row.try_get("reason")?,
                error_message: row.try_get("error_message")?,
                epoch: row.try_get("epoch")?,
                write_id: row.try_get("write_id")?,
            })
        }

        /// A word that is only compared and shown: what is no UTF-8, which SQLite stores, is another word.
        fn word(row: &$Row, column: &str) -> Result<String> {
            if let Ok(word) = row.try_get::<String, _>(column) {
                return Ok(word);
            }
            let bytes: Vec<u8> = row.try_get_unchecked(column)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }

        fn step_outcome(row: &$Row) -> Result<std::result::Result<crate::codec::Outcome, String>> {
            let status: &str = row.try_get("status")?;
            let encoding: Option<&str> = row.try_get("error_encoding")?;
            let payload =
                super::row::payload(row.try_get("codec")?, row.try_get("output")?, row.try_get("output_bytes")?);
            let message = row.try_get("error_message")?;
            Ok(super::row::outcome(status == "error", payload, encoding, message))
        }

        /// Columns as in `step/outcomes`.
        pub(super) fn step_record(row: &$Row) -> Result<crate::model::StepRecord> {
            Ok(crate::model::StepRecord {
                branch: row.try_get::<&str, _>("branch")?.into(),
                step_index: row.try_get("step_index")?,
                seq: row.try_get("seq")?,
                kind: word(row, "kind")?,
                step_name: word(row, "step_name")?,
                outcome: step_outcome(row).unwrap_or_else(|error| Err(super::row::unreadable(&error))),
                args_hash: row.try_get("args_hash")?,
                call_site: word(row, "call_site")?,
                definition_site: word(row, "definition_site")?,
                write_id: row.try_get("write_id")?,
            })
        }

        /// The payload columns of `workflow_payloads`.
        pub(super) fn payload_of(row: &$Row) -> Result<Option<crate::codec::Payload>> {
            Ok(super::row::payload(row.try_get("codec")?, row.try_get("payload")?, row.try_get("payload_bytes")?))
        }

        /// Columns as in `workflow/payload`.
        pub(super) fn result_of(id: &str, row: &$Row) -> Result<crate::codec::Outcome> {
            let encoding: Option<String> = row.try_get("error_encoding")?;
            let message = row.try_get("error_message")?;
            super::row::outcome(encoding.is_some(), payload_of(row)?, encoding.as_deref(), message).map_err(|why| {
                StoreError::new(StoreErrorKind::Corrupt, format!("the result of workflow `{id}` can't be read: {why}"))
            })
        }
    };
}

pub(super) use readers;
