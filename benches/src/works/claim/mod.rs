//! A claim of a hundred, with few rows and with many: the library's own statements, committed one after the other as a
//! busy executor's are, the two cases in turn.

mod postgres;
mod sqlite;

use crate::Store;
use crate::database::Database;
use crate::report::{Report, median};

/// Workflows that a claim takes.
const LIMIT: i64 = 100;

/// Claims of each case before the measured ones: statements are prepared, plans are chosen, pages are there.
const WARM_UP: usize = 10;

/// Measured claims of each case: with those before, nine tenths of the ten thousand.
const CLAIMS: usize = 80;

/// Workflows that a claim meets.
#[derive(Clone, Copy)]
struct Rows {
    pending: u32,
    finished: u32,
}

/// Milliseconds of the claim with many, and how much that is of the time with few.
pub(super) async fn measure(database: &Database, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let few = Rows { pending: 10_000, finished: 0 };
    let many = if quick {
        Rows { pending: 100_000, finished: 500_000 }
    } else {
        Rows { pending: 1_000_000, finished: 10_000_000 }
    };
    let (with_few, with_many) = match database.store {
        Store::Postgres => postgres::claims(database, few, many).await?,
        Store::Sqlite => sqlite::claims(database, few, many).await?,
    };
    let with_few = median(with_few);
    report.times(with_many);
    report.per_s = report.p50_ms.map(|many| 1e3 / many);
    report.ratio = report.p50_ms.map(|many| many / with_few);
    report.note = Some(format!(
        "claim: {with_few:.2} ms for {LIMIT} of {} pending and {} finished, against those of {} and {}",
        few.pending, few.finished, many.pending, many.finished
    ));
    Ok(())
}
